"""Ask the simulated user: how questions arrive, and who answers them."""
