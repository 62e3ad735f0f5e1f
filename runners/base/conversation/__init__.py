"""Data structures of a conversation: messages, actions and injected messages."""
