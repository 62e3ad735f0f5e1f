"""Models: hosted models through litellm, replay models, and recording of their calls."""
