"""Plugins: what a backend is, and how installed ones are found, checked and kept."""
