"""Runners: plan the trials of an experiment, run them, and record every action as it happens."""
