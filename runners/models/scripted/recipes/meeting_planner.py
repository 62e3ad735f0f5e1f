"""meeting-planner: load calendars and rules, try starts in order, pick a room, write invitation and agenda."""

import re

from runners.models.scripted.recipe import Memory, Parameter, Recipe, among, bash, looked_up, python, read_file, seen

_DAY = r"(\d{4}-\d\d-\d\d)"
_NAME = r"[A-Z][a-z]+ [A-Z][a-z]+"
_NAMES = rf"({_NAME}(?:, {_NAME})*)"


def _everybody(memory: Memory) -> list[str]:
    """Guess that all people of the list are meant, or all of one team."""
    people = re.findall(rf"^({_NAME}),\S+,(\w+)$", memory.get("look at people and topics", ""), re.MULTILINE)
    if not people:
        return ["Nobody Known"]
    first_team = ", ".join(name for name, team in people if team == people[0][1])
    return [", ".join(name for name, _ in people), first_team]


PARAMETERS = (
    Parameter(
        name="title",
        question="What is the title of the meeting?",
        patterns=(r'the meeting "([^"]+)"',),
        shape=r'"([^"]+)"',
        guesses=among("Meeting", "Team meeting"),
        find=looked_up("read the request", r'set up "([^"]+)"'),
    ),
    Parameter(
        name="attendees",
        question="Which people should I invite?",
        patterns=(rf"invite (?-i:{_NAMES})",),
        shape=_NAMES,
        guesses=_everybody,
    ),
    Parameter(
        name="calendar_folder",
        question="In which folder are the calendars that I should go by?",
        patterns=(r"ICS files in `([^`]+)`",),
        shape=r"(calendars/[\w./-]*\w)",
        guesses=seen("list the files", r"\./([\w/-]+)/\w+\.ics", "calendars"),
    ),
    Parameter(
        name="office_clock",
        question="What is the time zone of the office?",
        patterns=(r"office time is (UTC(?:[+-]\d+)?)",),
        shape=r"\b(UTC(?:[+-]\d+)?)\b",
        guesses=among("UTC"),
        find=looked_up("read the house rules", r"Office time in \w+ is (UTC(?:[+-]\d+)?)"),
    ),
    Parameter(
        name="duration",
        question="How long should the meeting be?",
        patterns=(r"takes (\d+) minutes",),
        shape=r"\b(\d+) ?min",
        guesses=among("60", "30", "45"),
    ),
    Parameter(
        name="not_before",
        question="What is the earliest day for the meeting?",
        patterns=(rf"on {_DAY} or later",),
        shape=_DAY,
        guesses=among("2025-10-06", "2025-10-20"),
    ),
    Parameter(
        name="day_start",
        question="At what time of the day may the meeting start at the earliest?",
        patterns=(r"lies between (\d\d:\d\d) and",),
        shape=r"(\d\d:\d\d)",
        guesses=among("09:00", "08:00"),
    ),
    Parameter(
        name="day_end",
        question="At what time of the day must the meeting be over at the latest?",
        patterns=(r"lies between \d\d:\d\d and (\d\d:\d\d)",),
        shape=r"(\d\d:\d\d)",
        guesses=among("17:00", "18:00"),
    ),
    Parameter(
        name="buffer",
        question="How much free time do people need before and after the meeting?",
        patterns=(r"from (\d+) minutes before it until \d+ minutes after it",),
        shape=r"\b(\d+) ?min",
        guesses=among("0", "5", "15"),
    ),
    Parameter(
        name="equipment",
        question="Which equipment must the room have?",
        patterns=(r"`rooms\.csv` that has an? (\w+)",),
        shape=r"\b(camera|projector|whiteboard)\b",
        guesses=among("projector", "whiteboard", "camera"),
        criticality=0.5,
    ),
    Parameter(
        name="invitation_file",
        question="What should the invitation file be called?",
        patterns=(r"invitation to `([^`]+)`",),
        shape=r"([\w./-]+\.ics)\b",
        guesses=among("meeting.ics", "invite.ics"),
    ),
    Parameter(
        name="agenda_file",
        question="Under which file name should I save the agenda?",
        patterns=(r"then write `([^`]+)` in Markdown",),
        shape=r"([\w./-]+\.md)\b",
        guesses=among("agenda_draft.md"),
    ),
)

STEPS = (
    bash("list the files", "find . -type f | sort"),
    read_file("read the house rules", "house_rules.md"),
    bash("look at rooms and bookings", "cat rooms.csv && head -n 5 room_bookings.csv", joins_previous=True),
    bash("look at people and topics", "cat people.csv topics.csv"),
    bash("read the request", "cat inbox/*.txt", is_extra=True),
    bash("look at a calendar", "ls {{calendar_folder}} && head -q -n 20 {{calendar_folder}}/*.ics | head -n 30"),
    python(
        "look up the invited people",
        """
import csv
with open("people.csv", newline="") as file:
    mails = {row["name"]: row["mail"] for row in csv.DictReader(file)}
invited = [name for name in {{attendees}}.split(", ") if name in mails]
print(len(invited), "people to invite")
""",
    ),
    python(
        "load their calendars",
        r"""
import pathlib, re
entries = []
for name in invited:
    path = pathlib.Path({{calendar_folder}}) / (name.lower().replace(" ", "_") + ".ics")
    for block in re.sub(r"\n[ \t]", "", path.read_text()).split("BEGIN:VEVENT")[1:]:
        entries.append(dict(re.findall(r"^([A-Z]+)[^:\n]*:(.*)$", block, re.M)))
print(len(entries), "entries")
""",
        after=("look up the invited people",),
    ),
    python(
        "keep the entries that block",
        """
blocking = [
    item for item in entries if item.get("STATUS") != "CANCELLED" and item.get("TRANSP") != "TRANSPARENT"
]
print(len(blocking), "entries block somebody")
""",
        after=("load their calendars",),
    ),
    python(
        "turn the entries into office time",
        r"""
from datetime import datetime, timedelta
hours = timedelta(hours=int({{office_clock}}.removeprefix("UTC") or 0))
busy = []
for item in blocking:
    begin, end = (
        datetime.strptime((item[key].strip("Z") + "T000000")[:15], "%Y%m%dT%H%M%S") for key in ("DTSTART", "DTEND")
    )
    busy.append((begin + hours, end + hours) if "T" in item["DTSTART"] else (begin, end))
print(min(busy), max(busy))
""",
        after=("keep the entries that block",),
    ),
    python(
        "take lunch and closed days from the house rules",
        r"""
import pathlib, re
from datetime import date, time
rules = pathlib.Path("house_rules.md").read_text()
lunch = [time.fromisoformat(clock) for clock in re.search(r"between (\d\d:\d\d) and (\d\d:\d\d)", rules).groups()]
closed = [date.fromisoformat(day) for day in re.findall(r"closed on (\d{4}-\d\d-\d\d)", rules)]
print(lunch, closed)
""",
    ),
    python(
        "list the possible starts",
        """
from datetime import date, datetime, time, timedelta
length = timedelta(minutes=int({{duration}}))
starts, first_day = [], date.fromisoformat({{not_before}})
for day in (first_day + timedelta(days=number) for number in range(60)):
    if day.weekday() > 4 or day in closed:
        continue
    opens, closes, noon, one = (
        datetime.combine(day, clock)
        for clock in (time.fromisoformat({{day_start}}), time.fromisoformat({{day_end}}), *lunch)
    )
    for number in range(96):
        start = datetime.combine(day, time()) + timedelta(minutes=15 * number)
        if opens <= start and start + length <= closes and (start + length <= noon or start >= one):
            starts.append(start)
print(len(starts), "possible starts from", starts[0])
""",
        after=("take lunch and closed days from the house rules",),
    ),
    python(
        "find the earliest start for everybody",
        """
from datetime import timedelta
gap = timedelta(minutes=int({{buffer}}))
start = next(at for at in starts if all(at + length + gap <= begin or end <= at - gap for begin, end in busy))
end = start + length
print("earliest", start)
""",
        after=("list the possible starts", "turn the entries into office time"),
    ),
    python(
        "pick the room",
        """
with open("room_bookings.csv", newline="") as file:
    bookings = [
        (row["room"], *(datetime.fromisoformat(row["date"] + " " + row[key]) for key in ("start", "end")))
        for row in csv.DictReader(file)
    ]
booked = {room for room, begin, until in bookings if begin < end and start < until}
with open("rooms.csv", newline="") as file:
    rooms = sorted(csv.DictReader(file), key=lambda row: int(row["seats"]))
room = next(
    row["room"] for row in rooms
    if int(row["seats"]) >= len(invited) and {{equipment}} in row["equipment"] and row["room"] not in booked
)
print("room", room)
""",
        after=("find the earliest start for everybody",),
    ),
    python(
        "write the invitation",
        r"""
stamp = "%Y%m%dT%H%M%SZ"
lines = [
    "BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//planner//EN", "BEGIN:VEVENT", "UID:planned@brightline.example",
    f"DTSTAMP:{start - hours:{stamp}}", f"DTSTART:{start - hours:{stamp}}", f"DTEND:{end - hours:{stamp}}",
    "SUMMARY:" + {{title}}, "LOCATION:" + room, *(f"ATTENDEE;CN={name}:mailto:{mails[name]}" for name in invited),
    "END:VEVENT", "END:VCALENDAR",
]
target = pathlib.Path({{invitation_file}})
target.parent.mkdir(parents=True, exist_ok=True)
target.write_text("\r\n".join(lines) + "\r\n", newline="")
print("wrote", target)
""",
        after=("turn the entries into office time", "pick the room"),
        is_delivery=True,
    ),
    bash("read the invitation once more", "cat {{invitation_file}}", after=("write the invitation",), is_extra=True),
    python(
        "work out when the topics start",
        """
import csv
with open("topics.csv", newline="") as file:
    open_topics = [row for row in csv.DictReader(file) if row["status"] == "open"]
agenda, at = [], start
for row in open_topics:
    agenda.append(f"- {at:%H:%M} {row['topic']}")
    at += timedelta(minutes=int(row["minutes"]))
print(agenda)
""",
        after=("find the earliest start for everybody",),
    ),
    python(
        "write the agenda",
        r"""
target = pathlib.Path({{agenda_file}})
target.parent.mkdir(parents=True, exist_ok=True)
target.write_text("# " + {{title}} + "\n\n" + "\n".join(agenda) + "\n")
""",
        after=("work out when the topics start",),
        is_delivery=True,
    ),
    bash("read the agenda once more", "cat {{agenda_file}}", after=("write the agenda",), is_extra=True),
)

RECIPE = Recipe(
    name="meeting-planner",
    recognise=r"plan the meeting",
    parameters=PARAMETERS,
    steps=STEPS,
    deliverables=("invitation_file", "agenda_file"),
)
