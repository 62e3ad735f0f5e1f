"""Say in sentences what the tables of a store show."""

MEASURES = {"pass_at_1": "pass_at_1", "pass_at_k": "pass", "checkpoint_progress": "progress"}
"""The success measures that findings can be about, and the name of each in the table ``net_value``."""
