"""The ``ask_user`` MCP server, which receives a question, records it and returns the answer."""
