"""Writes Python functions as text, and compiles them."""
