"""The LLM gateway: unmodified agents call their model through it, and are recorded and injected on the way."""
