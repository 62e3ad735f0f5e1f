"""Sandboxes in containers of a Docker Engine."""
