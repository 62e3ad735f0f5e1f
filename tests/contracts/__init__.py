"""One suite for each protocol, inherited by every implementation."""
