"""Grading again: trials that are over, graded from what is stored of them, with the new results beside the old ones."""
