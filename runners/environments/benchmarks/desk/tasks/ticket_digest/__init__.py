"""ticket-digest: find the tickets that took longer than agreed, list them by owner, and escalate the worst."""
