"""Programs as graphs: what a run has called, captured as data."""
