"""Recovery of a store after a process died, and repair after damage."""
