"""Tests of the simulated user."""
