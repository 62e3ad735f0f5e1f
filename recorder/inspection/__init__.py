"""A look at a store: its last events, what it holds, and whether all of it is whole."""
