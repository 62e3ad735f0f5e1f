"""From well-specified tasks to a validated set of underspecified variants: tasks in, segments, variants, selection."""
