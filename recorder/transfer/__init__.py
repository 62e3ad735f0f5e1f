"""Events from store to store: exports as one file, and their import."""
