"""External agents: existing programs, started in a trial's sandbox and recorded at the gateway."""
