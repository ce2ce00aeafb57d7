"""Names of other frameworks, and what to write here: data for error messages.

A table is a dict: its keys are names, several of one meaning in one string, its values are what to
write, or the reason why there is nothing. Code stands in backticks; tests look up every name in it.
"""
