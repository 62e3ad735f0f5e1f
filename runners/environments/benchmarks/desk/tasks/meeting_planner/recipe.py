"""meeting-planner: load calendars and rules, try starts in order, pick a room, write invitation and agenda."""

import re

from lhaw_record.runners.environments.benchmarks.desk.recipe import (
    Memory,
    RecipeParameter,
    among,
    file_for,
    looked_up,
    recipe_of,
    seen,
)

_DAY = r"(\d{4}-\d\d-\d\d)"
_NAME = r"[A-Z][a-z]+ [A-Z][a-z]+"
_NAMES = rf"({_NAME}(?:, {_NAME})*)"


def _everybody(memory: Memory) -> list[str]:
    """Return guesses of who is meant: everybody on the list, or everybody in one team."""
    people = re.findall(rf"^({_NAME}),\S+,(\w+)$", memory.get("look at people and topics", ""), re.MULTILINE)
    if not people:
        return ["Nobody Known"]
    first_team = ", ".join(name for name, team in people if team == people[0][1])
    return [", ".join(name for name, _ in people), first_team]


RECIPE = recipe_of(
    __file__,
    recognise=r"plan the meeting",
    deliverables=("invitation_file", "agenda_file"),
    title=RecipeParameter(
        question="What is the title of the meeting?",
        patterns=(r'the meeting "([^"]+)"',),
        shape=r'"([^"]+)"',
        guesses=among("Meeting", "Team meeting"),
        find=looked_up("read the request", r'set up "([^"]+)"'),
    ),
    attendees=RecipeParameter(
        question="Which people should I invite?",
        patterns=(rf"invite (?-i:{_NAMES})",),
        shape=_NAMES,
        guesses=_everybody,
    ),
    calendar_folder=RecipeParameter(
        question="In which folder are the calendars that I should go by?",
        patterns=(r"ICS files in `([^`]+)`",),
        shape=r"(calendars/[\w./-]*\w)",
        guesses=seen("list the files", r"\./([\w/-]+)/\w+\.ics", "calendars"),
    ),
    office_clock=RecipeParameter(
        question="What is the time zone of the office?",
        patterns=(r"office time is (UTC(?:[+-]\d+)?)",),
        shape=r"\b(UTC(?:[+-]\d+)?)\b",
        guesses=among("UTC"),
        find=looked_up("read the house rules", r"Office time in \w+ is (UTC(?:[+-]\d+)?)"),
        rule=looked_up("read the house rules", r"from October on it is (UTC(?:[+-]\d+)?)"),
    ),
    duration=RecipeParameter(
        question="How long should the meeting be?",
        patterns=(r"takes (\d+) minutes",),
        shape=r"\b(\d+) ?min",
        guesses=among("60", "30", "45"),
    ),
    not_before=RecipeParameter(
        question="What is the earliest day for the meeting?",
        patterns=(rf"on {_DAY} or later",),
        shape=_DAY,
        guesses=among("2025-10-06", "2025-10-20"),
    ),
    day_start=RecipeParameter(
        question="At what time of the day may the meeting start at the earliest?",
        patterns=(r"lies between (\d\d:\d\d) and",),
        shape=r"(\d\d:\d\d)",
        guesses=among("09:00", "08:00"),
    ),
    day_end=RecipeParameter(
        question="At what time of the day must the meeting be over at the latest?",
        patterns=(r"lies between \d\d:\d\d and (\d\d:\d\d)",),
        shape=r"(\d\d:\d\d)",
        guesses=among("17:00", "18:00"),
    ),
    buffer=RecipeParameter(
        question="How much free time do people need before and after the meeting?",
        patterns=(r"from (\d+) minutes before it until \d+ minutes after it",),
        shape=r"\b(\d+) ?min",
        guesses=among("0", "5", "15"),
        rule=looked_up("read the house rules", r"Everybody has (\d+) minutes between"),
    ),
    equipment=RecipeParameter(
        question="Which equipment must the room have?",
        patterns=(r"`rooms\.csv` that has an? (\w+)",),
        shape=r"\b(camera|projector|whiteboard)\b",
        guesses=among("projector", "whiteboard", "camera"),
        criticality=0.5,
    ),
    invitation_file=RecipeParameter(
        question="What should the invitation file be called?",
        patterns=(r"invitation to `([^`]+)`",),
        shape=r"([\w./-]+\.ics)\b",
        guesses=among("meeting.ics", "invite.ics"),
    ),
    agenda_file=file_for("the agenda", r"then write `([^`]+)` in Markdown", "md", "agenda_draft.md"),
)
