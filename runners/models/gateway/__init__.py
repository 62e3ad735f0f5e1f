"""The LLM gateway. Unmodified agents call their model through it, so it can record them and inject messages."""
