"""File operations: durable writes to the local disk, and access to remote storage shared by several hosts."""
