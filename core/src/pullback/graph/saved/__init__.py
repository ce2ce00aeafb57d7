"""Programs in a folder."""
