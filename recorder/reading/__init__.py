"""Reading a store, even while it is being written."""
