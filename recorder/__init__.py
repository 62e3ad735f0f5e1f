"""The recorder: events, the store they lie in, and everything that keeps them whole."""
