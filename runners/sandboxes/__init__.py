"""Sandboxes: bubblewrap or the namespaces of the kernel, Docker, and a plain process for scripted models."""
