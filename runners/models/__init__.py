"""Models: litellm for every provider, and the embedded scripted ones."""
