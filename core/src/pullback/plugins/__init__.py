"""Plugins: the base class of backends, and the registry that finds, checks and loads plugins."""
