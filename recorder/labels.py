"""What tables, pages and papers call the conditions."""

CONDITION_LABELS = {
    "full": "full prompt",
    "underspecified": "underspecified",
    "ask_user": "may ask",
    **{f"inject_{percent}": f"told at {percent} %" for percent in (10, 30, 50, 70, 90)},
    "full_ask_user": "full, may ask",
    "control": "control",
    "control_ask_user": "control, may ask",
    "faulty": "faulty request",
    "faulty_ask_user": "faulty, may ask",
}
