"""Executors: they run trial attempts in this process, or in workers on a Ray cluster."""
