"""How often intervals hold the truth, and tests find what is not there, on simulated studies."""
