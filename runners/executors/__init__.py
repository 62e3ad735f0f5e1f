"""Where attempts are executed: in this process, or by workers on the machines of a Ray cluster."""
