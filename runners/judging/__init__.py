"""Offline judges: models that look at trials which are over and write what they say beside them."""
