"""The workspace of meeting-planner: two sets of calendars, people, rooms and bookings, topics, rules, the request.

The checkpoints of meeting-planner: the invitation and the agenda.
"""

import datetime as dt
import re
from collections.abc import Sequence
from functools import cache

import msgspec

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import (
    CheckpointNotMet,
    OfficeDeliverables,
    check_listed,
    heading_mentions,
    mentions,
)
from lhaw_record.runners.environments.benchmarks.desk.task import DeskCheckpoint, DeskTask
from lhaw_record.runners.environments.benchmarks.desk.workspace_files import Files, csv_text, other_name, seeded

PEOPLE = (
    "Anton Reuter", "Bea Lindqvist", "Dana Okafor", "Farid Nasser",
    "Luis Prieto", "Mira Sandberg", "Tobias Kern", "Yuki Mori",
)  # fmt: skip
FIRST_DAY = dt.date(2025, 10, 6)
_DAYS = 19
_TEAMS = ("Purchasing", "Production", "Quality")
_ENTRIES = (
    "Customer call", "Stand-up", "Budget round", "Interview", "Plant tour", "One-to-one", "Training", "Focus time",
)  # fmt: skip
_STAMP = "%Y%m%dT%H%M%SZ"
CLOSED_DAY = dt.date(2025, 10, 9)
LUNCH = (dt.time(12), dt.time(13))
ROOMS = (
    ("Alder", 3, "whiteboard"), ("Birch", 6, "whiteboard;projector"), ("Cedar", 7, "camera;whiteboard"),
    ("Elm", 8, "camera;projector"), ("Hazel", 10, "projector;whiteboard"), ("Juniper", 12, "camera;whiteboard"),
    ("Larch", 20, "camera;projector;whiteboard"), ("Maple", 26, "camera;projector;whiteboard"),
)  # fmt: skip
"""Rooms, as (name, seats, equipment)."""
_QUARTER = dt.timedelta(minutes=15)
_BOOKING_DAYS = 12
TOPICS = (
    ("Delivery delays", 15, "open"), ("Price list", 20, "done"), ("Returns handling", 10, "open"),
    ("New packaging", 15, "postponed"), ("Contract terms", 20, "open"),
)  # fmt: skip
"""Topics, as (topic, minutes, status)."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of the task. Dates are ISO, clock times in office time, ``duration`` and ``buffer`` in minutes."""

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
    invitation_file: str = "outlook_import.ics"
    agenda_file: str = "running_order.md"
    seed: int = 414

    @property
    def invited(self) -> list[str]:
        """The full names of the people to invite."""
        return self.attendees.split(", ")

    @property
    def office_offset(self) -> dt.timedelta:
        """The offset of office time from UTC."""
        return dt.timedelta(hours=int(self.office_clock.removeprefix("UTC") or 0))


class CalendarEvent(msgspec.Struct, frozen=True):
    """One calendar entry, in UTC as naive datetimes. A whole-day entry covers an office day, excluding its end."""

    start: dt.datetime
    end: dt.datetime
    summary: str
    kind: str

    def lines(self, number: int) -> list[str]:
        """Return the lines of the entry in an iCalendar file."""
        if self.kind == "whole day":
            times = [f"DTSTART;VALUE=DATE:{self.start:%Y%m%d}", f"DTEND;VALUE=DATE:{self.end:%Y%m%d}"]
        else:
            times = [f"DTSTART:{self.start:{_STAMP}}", f"DTEND:{self.end:{_STAMP}}"]
        marks = {"cancelled": ["STATUS:CANCELLED"], "transparent": ["STATUS:CONFIRMED", "TRANSP:TRANSPARENT"]}
        return [
            "BEGIN:VEVENT",
            f"UID:{number:04d}@brightline.example",
            *times,
            f"SUMMARY:{self.summary}",
            *marks.get(self.kind, ["STATUS:CONFIRMED", "TRANSP:OPAQUE"]),
            "END:VEVENT",
        ]


class Booking(msgspec.Struct, frozen=True, order=True):
    """The booking of a room, in office time."""

    start: dt.datetime
    end: dt.datetime
    room: str


class MeetingSlot(msgspec.Struct, frozen=True):
    """The time and room of the meeting, in office time as naive datetimes."""

    start: dt.datetime
    end: dt.datetime
    room: str


def build(parameters: Parameters) -> Files:
    """Build the workspace. The second set of calendars is a distractor that lacks a third of the entries."""
    other = other_name(parameters.calendar_folder, "calendars/phones", "calendars/server")
    files = {}
    for number, name in enumerate(PEOPLE):
        file_name, events = f"{name.lower().replace(' ', '_')}.ics", calendar_of(parameters, name)
        files[f"{parameters.calendar_folder}/{file_name}"] = ics_text(events)
        files[f"{other}/{file_name}"] = ics_text([item for place, item in enumerate(events) if (place + number) % 3])
    booked = [
        (item.room, item.start.date(), f"{item.start:%H:%M}", f"{item.end:%H:%M}") for item in bookings(parameters)
    ]
    return {
        **files,
        "people.csv": csv_text([("name", "mail", "team"), *((name, mail_of(name), team_of(name)) for name in PEOPLE)]),
        "rooms.csv": csv_text([("room", "seats", "equipment"), *ROOMS]),
        "room_bookings.csv": csv_text([("room", "date", "start", "end"), *booked]),
        "topics.csv": csv_text([("topic", "minutes", "status"), *TOPICS]),
        "house_rules.md": (
            "# House rules for meetings\n\n"
            f"- Lunch is sacred: no meeting between {LUNCH[0]:%H:%M} and {LUNCH[1]:%H:%M} office time.\n"
            "- Meetings are from Monday to Friday.\n"
            f"- The office is closed on {CLOSED_DAY} for stocktaking.\n"
            f"- Office time in October is {parameters.office_clock}.\n"
            "- Whoever books a room leaves it tidy.\n"
        ),
        "inbox/request.txt": (
            "From: Purchasing\nSubject: Meeting\n\n"
            f'Could you set up "{parameters.title}", as we said? The rest you know.\n\nBea\n'
        ),
    }


@cache
def calendar_of(parameters: Parameters, name: str) -> tuple[CalendarEvent, ...]:
    """Generate three weeks of one person's calendar, in time order."""
    chance = seeded(f"{parameters.seed} {name}")
    events = []
    for day in (FIRST_DAY + dt.timedelta(days=number) for number in range(_DAYS)):
        if day.weekday() >= 5:
            continue
        midnight = dt.datetime.combine(day, dt.time())
        if chance.random() < 0.07:
            events.append(CalendarEvent(midnight, midnight + dt.timedelta(days=1), "Day off", "whole day"))
        for _ in range(chance.randrange(3, 6)):
            start = midnight + dt.timedelta(hours=6, minutes=5 * chance.randrange(108))
            end = start + dt.timedelta(minutes=chance.choice((25, 30, 45, 50, 60)))
            kind = chance.choices(("busy", "cancelled", "transparent"), (8, 1, 1))[0]
            events.append(CalendarEvent(start, end, chance.choice(_ENTRIES), kind))
    return tuple(sorted(events, key=lambda event: event.start))


def ics_text(events: Sequence[CalendarEvent]) -> str:
    """Return a calendar as iCalendar text."""
    lines = [line for number, event in enumerate(events, start=1) for line in event.lines(number)]
    return "".join(f"{line}\r\n" for line in ("BEGIN:VCALENDAR", "VERSION:2.0", *lines, "END:VCALENDAR"))


def mail_of(name: str) -> str:
    """Return the mail address of a person."""
    first, last = name.lower().split()
    return f"{first[0]}.{last}@brightline.example"


def team_of(name: str) -> str:
    """Return the team of a person."""
    return _TEAMS[PEOPLE.index(name) % len(_TEAMS)]


@cache
def planned(parameters: Parameters) -> MeetingSlot:
    """Return the earliest slot that suits everybody, with the smallest suitable room that is free."""
    start, end = _earliest(parameters)
    taken = {booking.room for booking in bookings(parameters) if booking.start < end and start < booking.end}
    return MeetingSlot(start, end, next(room for room in _suitable_rooms(parameters) if room not in taken))


@cache
def bookings(parameters: Parameters) -> tuple[Booking, ...]:
    """Generate the bookings. The smallest suitable room is taken before the meeting ends, the second right after it."""
    chance = seeded(parameters.seed + 1)
    start, end = _earliest(parameters)
    smallest, second = _suitable_rooms(parameters)[:2]
    made = [Booking(end - _QUARTER, end + 3 * _QUARTER, smallest), Booking(end, end + 2 * _QUARTER, second)]
    for _ in range(40):
        day = FIRST_DAY + dt.timedelta(days=chance.randrange(_BOOKING_DAYS))
        begin = dt.datetime.combine(day, dt.time(8)) + _QUARTER * chance.randrange(32)
        room = chance.choice([room for room, _, _ in ROOMS[:-2]])
        if day != start.date():
            made.append(Booking(begin, begin + _QUARTER * chance.choice((2, 4, 8)), room))
    return tuple(sorted(made))


def _suitable_rooms(parameters: Parameters) -> list[str]:
    """Return the rooms with enough seats and the equipment, the smallest first."""
    return [
        room
        for room, seats, equipment in sorted(ROOMS, key=lambda room: room[1])
        if seats >= len(parameters.invited) and parameters.equipment in equipment.split(";")
    ]


@cache
def _earliest(parameters: Parameters) -> tuple[dt.datetime, dt.datetime]:
    """Return the earliest start and its end. They always exist, because the calendars end."""
    duration, busy = dt.timedelta(minutes=int(parameters.duration)), _busy(parameters)
    day = dt.date.fromisoformat(parameters.not_before)
    while True:
        for start in _starts_on(day, duration, parameters):
            if all(start + duration <= begin or end <= start for begin, end in busy):
                return start, start + duration
        day += dt.timedelta(days=1)


def _starts_on(day: dt.date, duration: dt.timedelta, parameters: Parameters) -> list[dt.datetime]:
    """Return every start time on a day that office hours, lunch and closed days allow."""
    if day.weekday() >= 5 or day == CLOSED_DAY:
        return []
    clocks = (dt.time.fromisoformat(parameters.day_start), dt.time.fromisoformat(parameters.day_end), *LUNCH)
    opens, closes, noon, one = (dt.datetime.combine(day, clock) for clock in clocks)
    quarters = (dt.datetime.combine(day, dt.time()) + number * _QUARTER for number in range(96))
    return [
        start
        for start in quarters
        if opens <= start and start + duration <= closes and (start + duration <= noon or one <= start)
    ]


def _busy(parameters: Parameters) -> list[tuple[dt.datetime, dt.datetime]]:
    """Return the periods in which any invited person is busy, including the buffer, in office time."""
    offset, buffer = parameters.office_offset, dt.timedelta(minutes=int(parameters.buffer))
    spans = []
    for event in (event for name in parameters.invited for event in calendar_of(parameters, name)):
        if event.kind == "whole day":
            spans.append((event.start - buffer, event.end + buffer))
        elif event.kind == "busy":
            spans.append((event.start + offset - buffer, event.end + offset + buffer))
    return spans


Properties = dict[str, list[tuple[str, str]]]
"""Name of a property -> the parameters and value of each of its occurrences."""


def _event(left: OfficeDeliverables, parameters: Parameters) -> Properties:
    """Return the properties of the only event in the invitation."""
    lines = re.sub(r"\n[ \t]", "", left.text(parameters.invitation_file)).splitlines()
    marks = [line.strip().upper() for line in lines]
    if marks.count("BEGIN:VEVENT") != 1 or marks.count("END:VEVENT") != 1 or marks[0] != "BEGIN:VCALENDAR":
        raise CheckpointNotMet(f"{parameters.invitation_file} is not an iCalendar file with one event")
    properties: Properties = {}
    for line in lines[marks.index("BEGIN:VEVENT") + 1 : marks.index("END:VEVENT")]:
        match = re.fullmatch(r"\s*([\w-]+)((?:;[\w-]+=(?:\"[^\"]*\"|[^\":;]*))*):(.*)", line)
        if match:
            properties.setdefault(match[1].upper(), []).append((match[2].upper(), match[3].strip()))
    return properties


def _words(properties: Properties, name: str) -> str:
    """Return the unescaped text of a property for comparison."""
    _, text = properties.get(name, [("", "")])[0]
    return " ".join(re.sub(r"\\(.)", r"\1", text).casefold().split())


def _check_invitation(left: OfficeDeliverables, parameters: Parameters) -> str:
    summary = _words(_event(left, parameters), "SUMMARY")
    if summary != " ".join(parameters.title.casefold().split()):
        raise CheckpointNotMet(f"the summary is {summary!r}, not the title")
    return "one event, with the title as its summary"


def _instant(properties: Properties, name: str) -> str:
    """Return a date and time in ISO 8601 basic format. Its zone must be ``Z`` or ``TZID=UTC``."""
    more, value = properties.get(name, [("", "")])[0]
    is_utc = value.endswith("Z") or re.search(r"TZID=\"?(?:ETC/)?UTC", more) is not None
    if not is_utc:
        raise CheckpointNotMet(f"{name} is not a date and time in UTC: {value!r}")
    return value.removesuffix("Z")


def _check_slot(left: OfficeDeliverables, parameters: Parameters) -> str:
    properties, slot = _event(left, parameters), planned(parameters)
    start, end = (f"{time - parameters.office_offset:%Y%m%dT%H%M%S}" for time in (slot.start, slot.end))
    if _instant(properties, "DTSTART") != start:
        raise CheckpointNotMet(f"the start is not the earliest possible one, {slot.start} office time")
    if "DTEND" in properties:
        is_right_length = _instant(properties, "DTEND") == end
    else:
        match = re.fullmatch(r"PT(?:(\d{1,3})H)?(?:(\d{1,4})M)?(?:0+S)?", properties.get("DURATION", [("", "")])[0][1])
        is_right_length = match is not None and 60 * int(match[1] or 0) + int(match[2] or 0) == int(parameters.duration)
    if not is_right_length:
        raise CheckpointNotMet(f"it does not take {parameters.duration} minutes")
    return f"from {slot.start} to {slot.end} office time is the earliest possible slot"


def _check_room(left: OfficeDeliverables, parameters: Parameters) -> str:
    location, right = _words(_event(left, parameters), "LOCATION"), planned(parameters).room
    named = [room for room, _, _ in ROOMS if mentions(location, room)]
    if named != [right]:
        raise CheckpointNotMet(f"the location is {location!r}, not the smallest room that is suitable and free")
    return f"{right} is the smallest room that is suitable and free"


def _check_attendees(left: OfficeDeliverables, parameters: Parameters) -> str:
    attendees = _event(left, parameters).get("ATTENDEE", [])
    mails = (value.casefold().removeprefix("mailto:") for _, value in attendees)
    return check_listed(mails, map(mail_of, parameters.invited), "attendees")


def _check_agenda(left: OfficeDeliverables, parameters: Parameters) -> str:
    """Check the agenda.

    A heading must give the title. Each open topic must have a line with its start time, in order. No other topic may
    be named.
    """
    text = left.text(parameters.agenda_file)
    if not heading_mentions(text, parameters.title):
        raise CheckpointNotMet("no heading gives the title")
    named = [(topic, line) for line in text.splitlines() for topic, _, _ in TOPICS if mentions(line, topic)]
    wanted = [(topic, minutes) for topic, minutes, status in TOPICS if status == "open"]
    if [topic for topic, _ in named] != [topic for topic, _ in wanted]:
        raise CheckpointNotMet("the topics are not the open ones in their order")
    start = planned(parameters).start
    for (topic, line), (_, minutes) in zip(named, wanted, strict=True):
        times = re.findall(r"\b\d?\d:\d\d\b", line)
        if not times or times[0].zfill(5) != f"{start:%H:%M}":
            raise CheckpointNotMet(f"{topic} does not start at {start:%H:%M}")
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
