"""A store that many hosts share: where it lies, what a run publishes to it, and the working copy of it here."""
