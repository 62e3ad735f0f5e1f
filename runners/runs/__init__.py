"""Runs an experiment: schedules its trials, executes them, and records how the run ended."""
