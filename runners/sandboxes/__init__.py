"""Sandboxes: bubblewrap, and a plain process for scripted models."""
