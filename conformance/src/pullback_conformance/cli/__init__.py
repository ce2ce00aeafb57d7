"""The commands for authors of backends: `pullback conform`, `pullback new-backend`."""
