"""Request gates of endpoints: pacing, and circuit breaking."""
