"""The commands for authors of backends: `pullback conform`, `new-backend`, `ops`."""
