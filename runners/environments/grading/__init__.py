"""Compute the score of each checkpoint from what an agent left behind."""
