"""The simulated user: the ask_user server, its simulators, and the matcher behind ``exact``."""
