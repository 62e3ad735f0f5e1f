"""Sandboxes on this machine without an engine: bubblewrap, namespaces, or a plain process."""
