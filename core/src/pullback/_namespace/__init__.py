"""Parts of the array API namespace that are no ops: dtypes and what a device offers."""
