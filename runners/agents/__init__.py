"""Runs one trial, from opening its environment to grading the result."""
