"""The recorder beside its peer, inspect_ai: the same trials, each in an environment of its own."""
