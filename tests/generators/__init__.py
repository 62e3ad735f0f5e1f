"""Tests of how a benchmark is made."""
