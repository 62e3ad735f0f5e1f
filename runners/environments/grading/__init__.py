"""Compute the score of each checkpoint from an agent's files and final answer."""
