"""`pullback conform`: the command, and what it prints."""
