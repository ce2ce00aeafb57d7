"""The names of other frameworks, mapped to those of pullback; each is a distribution of its own."""
