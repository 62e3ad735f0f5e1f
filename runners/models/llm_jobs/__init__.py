"""Single model questions outside of trials: ask, parse, retry, and enforce a cost limit."""
