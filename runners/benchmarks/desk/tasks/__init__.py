"""The desk tasks: one module each, found by name; ``docs/desk.md`` says how to add one."""
