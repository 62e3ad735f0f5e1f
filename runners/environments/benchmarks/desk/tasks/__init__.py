"""The desk tasks. Each has its own folder and is found by name. ``CONTRIBUTING.md`` explains how to add one."""
