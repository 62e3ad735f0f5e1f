"""The scripted models: what they read, ask, do and redo."""
