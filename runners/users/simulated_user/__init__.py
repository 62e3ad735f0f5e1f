"""The simulated user: its simulators, and the matcher behind ``exact``."""
