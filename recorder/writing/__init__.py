"""Writing events to a journal: validation, redaction, numbering and durability."""
