"""The names of other frameworks, as thin mappings onto pullback's own."""
