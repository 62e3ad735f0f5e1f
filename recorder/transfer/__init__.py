"""Moving events between stores: export to one file, and import."""
