"""Planning: turns an experiment into the list of its trials."""
