"""Where agents work: benchmarks, sandboxes, grading."""
