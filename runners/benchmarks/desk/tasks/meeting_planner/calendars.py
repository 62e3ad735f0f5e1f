"""The parameters of meeting-planner, its people, and what stands in their calendars."""

import datetime as dt
import random
from collections.abc import Sequence
from functools import cache

import msgspec

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
    """One calendar entry, its times in UTC without zone; a whole-day entry is an office day, its end excluded."""

    start: dt.datetime
    end: dt.datetime
    summary: str
    kind: str

    def lines(self, number: int) -> list[str]:
        """Return the entry as it stands in an iCalendar file."""
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


@cache
def calendar_of(parameters: Parameters, name: str) -> tuple[Event, ...]:
    """Three weeks of one person, in order of time."""
    chance = random.Random(f"{parameters.seed} {name}")  # noqa: S311  reproducible test data, not secrets
    events = []
    for day in (FIRST_DAY + dt.timedelta(days=number) for number in range(_DAYS)):
        if day.weekday() >= 5:
            continue
        midnight = dt.datetime.combine(day, dt.time())
        if chance.random() < 0.07:
            events.append(Event(midnight, midnight + dt.timedelta(days=1), "Day off", "whole day"))
        for _ in range(chance.randrange(3, 6)):
            start = midnight + dt.timedelta(hours=6, minutes=5 * chance.randrange(108))
            end = start + dt.timedelta(minutes=chance.choice((25, 30, 45, 50, 60)))
            kind = chance.choices(("busy", "cancelled", "transparent"), (8, 1, 1))[0]
            events.append(Event(start, end, chance.choice(_ENTRIES), kind))
    return tuple(sorted(events, key=lambda event: event.start))


def ics_text(events: Sequence[Event]) -> str:
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
