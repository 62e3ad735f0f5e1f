"""Single questions to a model outside of trials: asks, parses the reply, asks again, and keeps within a cost limit."""
