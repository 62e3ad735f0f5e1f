"""The recorder: events, the store that holds them, and the code that keeps both intact."""
