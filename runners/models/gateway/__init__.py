"""The LLM gateway, which records the model calls of unmodified agents and injects messages."""
