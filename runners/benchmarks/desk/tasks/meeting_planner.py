"""meeting-planner: find the earliest slot that several calendars allow, a room for it, and write invitation and agenda."""

import datetime as dt
import random
import re
from collections.abc import Sequence
from functools import cache

import msgspec

from runners.benchmarks.desk.delivered import Delivered, Unmet
from runners.benchmarks.desk.files import Files, csv_text
from runners.benchmarks.desk.template import DeskCheckpoint, DeskTask
from runners.benchmarks.desk.words import mentions

_PEOPLE = (
    "Anton Reuter", "Bea Lindqvist", "Dana Okafor", "Farid Nasser",
    "Luis Prieto", "Mira Sandberg", "Tobias Kern", "Yuki Mori",
)  # fmt: skip
_EVENTS = ("Customer call", "Stand-up", "Budget round", "Interview", "Plant tour", "One-to-one", "Training", "Focus time")
_ROOMS = (
    ("Alder", 3, "whiteboard"), ("Birch", 6, "whiteboard;projector"), ("Cedar", 7, "camera;whiteboard"),
    ("Elm", 8, "camera;projector"), ("Hazel", 10, "projector;whiteboard"), ("Juniper", 12, "camera;whiteboard"),
    ("Larch", 20, "camera;projector;whiteboard"), ("Maple", 26, "camera;projector;whiteboard"),
)  # fmt: skip
_TOPICS = (
    ("Delivery delays", 15, "open"), ("Price list", 20, "done"), ("Returns handling", 10, "open"),
    ("New packaging", 15, "postponed"), ("Contract terms", 20, "open"),
)  # fmt: skip
_FIRST_DAY = dt.date(2025, 10, 6)
_CALENDAR_DAYS = 19
_CLOSED_DAY = dt.date(2025, 10, 9)
_LUNCH = (dt.time(12), dt.time(13))
_QUARTER = dt.timedelta(minutes=15)
_STAMP = "%Y%m%dT%H%M%SZ"


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What the prompt says; dates are ISO, clock times office time, ``duration`` and ``buffer`` minutes."""

    title: str = "Supplier review"
    attendees: str = "Dana Okafor, Luis Prieto, Mira Sandberg, Tobias Kern"
    calendar_folder: str = "calendars/server"
    office_clock: str = "UTC+2"
    duration: str = "75"
    not_before: str = "2025-10-07"
    day_start: str = "09:30"
    day_end: str = "16:30"
    buffer: str = "10"
    equipment: str = "camera"
    invitation_file: str = "invitation.ics"
    agenda_file: str = "agenda.md"
    seed: int = 414

    @property
    def invited(self) -> list[str]:
        """The full names of the invited people."""
        return self.attendees.split(", ")

    @property
    def office_offset(self) -> dt.timedelta:
        """How far office time is ahead of UTC."""
        return dt.timedelta(hours=int(self.office_clock.removeprefix("UTC") or 0))


class Event(msgspec.Struct, frozen=True):
    """One calendar entry in UTC, without time zone; a whole-day entry blocks office days, its end excluded."""

    start: dt.datetime
    end: dt.datetime
    summary: str
    kind: str

    def lines(self, number: int) -> list[str]:
        """Return the entry as it stands in the file."""
        if self.kind == "whole day":
            times = [f"DTSTART;VALUE=DATE:{self.start:%Y%m%d}", f"DTEND;VALUE=DATE:{self.end:%Y%m%d}"]
        else:
            times = [f"DTSTART:{self.start:{_STAMP}}", f"DTEND:{self.end:{_STAMP}}"]
        marks = {"cancelled": ["STATUS:CANCELLED"], "transparent": ["STATUS:CONFIRMED", "TRANSP:TRANSPARENT"]}
        more = marks.get(self.kind, ["STATUS:CONFIRMED", "TRANSP:OPAQUE"])
        return ["BEGIN:VEVENT", f"UID:{number:04d}@brightline.example", *times, f"SUMMARY:{self.summary}", *more, "END:VEVENT"]


class Slot(msgspec.Struct, frozen=True):
    """When (office time, without time zone) and where the meeting is."""

    start: dt.datetime
    end: dt.datetime
    room: str


def build(parameters: Parameters) -> Files:
    """Make the workspace: calendars from the server, an incomplete copy of them, people, rooms, rules, topics."""
    other = "calendars/phones" if parameters.calendar_folder != "calendars/phones" else "calendars/server"
    calendars = {name: _calendar(parameters, name) for name in _PEOPLE}
    slot = _slot(parameters)
    return {
        **{f"{parameters.calendar_folder}/{_file_name(name)}": _ics(events) for name, events in calendars.items()},
        **{
            f"{other}/{_file_name(name)}": _ics([item for place, item in enumerate(events) if (place + number) % 3])
            for number, (name, events) in enumerate(calendars.items())
        },
        "people.csv": csv_text([("name", "mail", "team"), *((name, _mail(name), _team(name)) for name in _PEOPLE)]),
        "rooms.csv": csv_text([("room", "seats", "equipment"), *_ROOMS]),
        "room_bookings.csv": csv_text(
            [
                ("room", "date", "start", "end"),
                *((room, start.date(), f"{start:%H:%M}", f"{end:%H:%M}") for room, start, end in _bookings(parameters, slot)),
            ]
        ),
        "topics.csv": csv_text([("topic", "minutes", "status"), *_TOPICS]),
        "house_rules.md": (
            "# House rules for meetings\n\n"
            f"- Lunch is sacred: no meeting between {_LUNCH[0]:%H:%M} and {_LUNCH[1]:%H:%M} office time.\n"
            "- Meetings are from Monday to Friday.\n"
            f"- The office is closed on {_CLOSED_DAY} for stocktaking.\n"
            f"- Office time in October is {parameters.office_clock}.\n"
            "- Whoever books a room leaves it tidy.\n"
        ),
        "inbox/request.txt": (
            "From: Bea Lindqvist\nSubject: Meeting\n\n"
            f'Could you set up "{parameters.title}", as we said? No need to invite me, I am on leave.\n\nBea\n'
        ),
    }


def _file_name(name: str) -> str:
    return f"{name.lower().replace(' ', '_')}.ics"


def _mail(name: str) -> str:
    first, last = name.lower().split()
    return f"{first[0]}.{last}@brightline.example"


def _team(name: str) -> str:
    return ("Purchasing", "Production", "Quality")[_PEOPLE.index(name) % 3]


@cache
def _calendar(parameters: Parameters, name: str) -> tuple[Event, ...]:
    """Three weeks of one person, in order of time."""
    chance = random.Random(f"{parameters.seed} {name}")  # noqa: S311  reproducible test data, not secrets
    events = []
    for day in (_FIRST_DAY + dt.timedelta(days=number) for number in range(_CALENDAR_DAYS)):
        if day.weekday() >= 5:
            continue
        midnight = dt.datetime.combine(day, dt.time())
        if chance.random() < 0.07:
            events.append(Event(midnight, midnight + dt.timedelta(days=1), "Day off", "whole day"))
        for _ in range(chance.randrange(3, 6)):
            start = midnight + dt.timedelta(hours=6, minutes=5 * chance.randrange(108))
            end = start + dt.timedelta(minutes=chance.choice((25, 30, 45, 50, 60)))
            kind = chance.choices(("busy", "cancelled", "transparent"), (8, 1, 1))[0]
            events.append(Event(start, end, chance.choice(_EVENTS), kind))
    return tuple(sorted(events, key=lambda event: event.start))


def _ics(events: Sequence[Event]) -> str:
    lines = [line for number, event in enumerate(events, start=1) for line in event.lines(number)]
    return "".join(f"{line}\r\n" for line in ("BEGIN:VCALENDAR", "VERSION:2.0", *lines, "END:VCALENDAR"))


def _bookings(parameters: Parameters, slot: tuple[dt.datetime, dt.datetime]) -> list[tuple[str, dt.datetime, dt.datetime]]:
    """Bookings in office time; the smallest suitable room is taken for the end of the slot, the largest two never."""
    chance = random.Random(parameters.seed + 1)  # noqa: S311  reproducible test data, not secrets
    start, end = slot
    smallest = _suitable_rooms(parameters)[0]
    bookings = [(smallest, end - _QUARTER, end + 3 * _QUARTER), (_suitable_rooms(parameters)[1], end, end + 2 * _QUARTER)]
    for _ in range(40):
        day = _FIRST_DAY + dt.timedelta(days=chance.randrange(12))
        begin = dt.datetime.combine(day, dt.time(8)) + _QUARTER * chance.randrange(32)
        room = chance.choice([room for room, _, _ in _ROOMS[:-2]])
        if begin.date() != start.date():
            bookings.append((room, begin, begin + _QUARTER * chance.choice((2, 4, 8))))
    return sorted(bookings, key=lambda booking: (booking[1], booking[0]))


def _suitable_rooms(parameters: Parameters) -> list[str]:
    """The rooms with seats and equipment, the smallest first."""
    return [
        room
        for room, seats, equipment in sorted(_ROOMS, key=lambda room: room[1])
        if seats >= len(parameters.invited) and parameters.equipment in equipment.split(";")
    ]


@cache
def _slot(parameters: Parameters) -> tuple[dt.datetime, dt.datetime]:
    """The earliest start and its end, in office time."""
    offset, duration = parameters.office_offset, dt.timedelta(minutes=int(parameters.duration))
    spans = [
        (event.start, event.end) if event.kind == "whole day" else (event.start + offset, event.end + offset)
        for name in parameters.invited
        for event in _calendar(parameters, name)
        if event.kind in ("busy", "whole day")
    ]
    buffer = dt.timedelta(minutes=int(parameters.buffer))
    day = dt.date.fromisoformat(parameters.not_before)
    while True:
        opens, closes, lunch_start, lunch_end = (
            dt.datetime.combine(day, clock)
            for clock in (dt.time.fromisoformat(parameters.day_start), dt.time.fromisoformat(parameters.day_end), *_LUNCH)
        )
        taken = [(lunch_start, lunch_end), *((start - buffer, end + buffer) for start, end in spans)]
        is_open = day.weekday() < 5 and day != _CLOSED_DAY
        start = dt.datetime.combine(day, dt.time())
        while is_open and start + duration <= closes:
            if start >= opens and all(start + duration <= begin or start >= end for begin, end in taken):
                return start, start + duration
            start += _QUARTER
        day += dt.timedelta(days=1)


@cache
def _planned(parameters: Parameters) -> Slot:
    """The one right slot and room."""
    start, end = _slot(parameters)
    booked = {
        room for room, begin, until in _bookings(parameters, (start, end)) if begin < end and start < until
    }
    return Slot(start, end, next(room for room in _suitable_rooms(parameters) if room not in booked))


def _event(left: Delivered, parameters: Parameters) -> dict[str, list[str]]:
    """The properties of the only event in the invitation: name -> its values, or ``name;parameters`` in front."""
    lines = re.sub(r"\n[ \t]", "", left.text(parameters.invitation_file)).splitlines()
    starts = [number for number, line in enumerate(lines) if line.strip().upper() == "BEGIN:VEVENT"]
    ends = [number for number, line in enumerate(lines) if line.strip().upper() == "END:VEVENT"]
    if len(starts) != 1 or len(ends) != 1 or lines[0].strip().upper() != "BEGIN:VCALENDAR":
        raise Unmet(f"{parameters.invitation_file} is not an iCalendar file with one event")
    properties: dict[str, list[str]] = {}
    for line in lines[starts[0] + 1 : ends[0]]:
        match = re.fullmatch(r"\s*([\w-]+)((?:;[\w-]+=(?:\"[^\"]*\"|[^\":;]*))*):(.*)", line)
        if match:
            properties.setdefault(match[1].upper(), []).append(f"{match[2].upper()}:{match[3].strip()}")
    return properties


def _words(properties: dict[str, list[str]], name: str) -> str:
    """The text of a property without escapes, for comparison."""
    text = properties.get(name, [":"])[0].partition(":")[2]
    return " ".join(re.sub(r"\\(.)", r"\1", text).casefold().split())


def _check_invitation(left: Delivered, parameters: Parameters) -> str:
    summary = _words(_event(left, parameters), "SUMMARY")
    if summary != " ".join(parameters.title.casefold().split()):
        raise Unmet(f"the summary is {summary!r}, not the title")
    return "one event, with the title as its summary"


def _instant(properties: dict[str, list[str]], name: str) -> dt.datetime:
    """A date-time in UTC, in the basic form or with ``TZID=UTC``."""
    value = properties.get(name, [""])[0]
    match = re.fullmatch(r"(.*):(\d{8}T\d{6})(Z?)", value)
    if match is None or not (match[3] or re.search(r"TZID=\"?(?:ETC/)?UTC", match[1])):
        raise Unmet(f"{name} is no date and time in UTC: {value!r}")
    try:
        return dt.datetime.strptime(match[2], "%Y%m%dT%H%M%S")
    except ValueError as error:
        raise Unmet(f"{name} is no date and time: {value!r}") from error


def _check_slot(left: Delivered, parameters: Parameters) -> str:
    properties, planned = _event(left, parameters), _planned(parameters)
    start = _instant(properties, "DTSTART") + parameters.office_offset
    if "DTEND" in properties:
        end = _instant(properties, "DTEND") + parameters.office_offset
    else:
        length = re.search(r":PT(?:(\d+)H)?(?:(\d+)M)?", properties.get("DURATION", [":"])[0])
        end = start + (dt.timedelta(hours=int(length[1] or 0), minutes=int(length[2] or 0)) if length else dt.timedelta())
    if (start, end) != (planned.start, planned.end):
        raise Unmet(f"from {start} to {end} office time is not the earliest possible slot of the demanded length")
    return f"from {start} to {end} office time is the earliest possible slot"


def _check_room(left: Delivered, parameters: Parameters) -> str:
    location, planned = _words(_event(left, parameters), "LOCATION"), _planned(parameters)
    named = [room for room, _, _ in _ROOMS if mentions(location, room)]
    if named != [planned.room]:
        raise Unmet(f"the location is {location!r}, not the smallest room that is suitable and free")
    return f"{planned.room} is the smallest room that is suitable and free"


def _check_attendees(left: Delivered, parameters: Parameters) -> str:
    lines = _event(left, parameters).get("ATTENDEE", [])
    mails = sorted(re.sub(r"^.*:", "", line).casefold() for line in lines)
    if mails != sorted(_mail(name) for name in parameters.invited):
        raise Unmet(f"{len(mails)} attendees, not exactly the {len(parameters.invited)} invited people")
    return f"the {len(mails)} invited people are the attendees"


def _check_agenda(left: Delivered, parameters: Parameters) -> str:
    """A heading with the title; each open topic on a line with its start, in order; no other topic."""
    lines = left.text(parameters.agenda_file).splitlines()
    if not any(line.startswith("#") and mentions(line, parameters.title) for line in lines):
        raise Unmet("no heading gives the title")
    named = [(topic, line) for line in lines for topic, _, _ in _TOPICS if mentions(line, topic)]
    wanted = [(topic, minutes) for topic, minutes, status in _TOPICS if status == "open"]
    if [topic for topic, _ in named] != [topic for topic, _ in wanted]:
        raise Unmet("the topics are not the open ones in their order")
    start = _planned(parameters).start
    for (topic, line), (_, minutes) in zip(named, wanted, strict=True):
        times = re.findall(r"\b\d?\d:\d\d\b", line)
        if not times or times[0].zfill(5) != f"{start:%H:%M}":
            raise Unmet(f"{topic} does not start at {start:%H:%M}")
        start += dt.timedelta(minutes=minutes)
    return f"the {len(wanted)} open topics start when they should"


TASK = DeskTask(
    task_id="meeting-planner",
    domain="administration",
    parameters=Parameters(),
    build=build,
    checkpoints=(
        DeskCheckpoint(checkpoint_id="invitation", label="one event with the title", check=_check_invitation),
        DeskCheckpoint(checkpoint_id="slot", label="the earliest possible slot", check=_check_slot),
        DeskCheckpoint(checkpoint_id="room", label="the smallest suitable free room", check=_check_room),
        DeskCheckpoint(checkpoint_id="attendees", label="exactly the invited people", check=_check_attendees),
        DeskCheckpoint(checkpoint_id="agenda", label="open topics with their times", check=_check_agenda),
    ),
)
