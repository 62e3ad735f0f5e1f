"""How the desk tasks are solved, one module each, found by name; no module here knows a task's parameters."""
