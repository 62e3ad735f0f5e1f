"""Judging and grading of trials that are over."""
