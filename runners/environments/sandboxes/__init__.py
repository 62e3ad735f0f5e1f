"""Sandboxes in which agents work: bubblewrap, kernel namespaces, Docker, or a plain process for scripted models."""
