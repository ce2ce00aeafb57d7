"""Parts of the array API namespace that are not ops: dtypes, and what a device supports."""
