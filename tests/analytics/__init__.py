"""Tests of the views and the tables."""
