"""Inspection of a store: its last events, its statistics, and checks that it is intact."""
