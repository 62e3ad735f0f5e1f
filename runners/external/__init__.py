"""External agents: programs that exist already, started in a trial's sandbox and recorded at the gateway."""
