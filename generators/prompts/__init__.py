"""Where a prompt says a value, and how two prompts differ."""
