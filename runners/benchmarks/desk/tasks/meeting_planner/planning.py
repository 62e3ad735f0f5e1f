"""The one right slot and room of meeting-planner, found by the rules of the prompt and of the house."""

import datetime as dt
import random
from functools import cache

import msgspec

from runners.benchmarks.desk.tasks.meeting_planner.calendars import FIRST_DAY, Parameters, calendar_of

CLOSED_DAY = dt.date(2025, 10, 9)
LUNCH = (dt.time(12), dt.time(13))
ROOMS = (
    ("Alder", 3, "whiteboard"), ("Birch", 6, "whiteboard;projector"), ("Cedar", 7, "camera;whiteboard"),
    ("Elm", 8, "camera;projector"), ("Hazel", 10, "projector;whiteboard"), ("Juniper", 12, "camera;whiteboard"),
    ("Larch", 20, "camera;projector;whiteboard"), ("Maple", 26, "camera;projector;whiteboard"),
)  # fmt: skip
"""Room, seats, equipment."""
_QUARTER = dt.timedelta(minutes=15)
_BOOKING_DAYS = 12


class Booking(msgspec.Struct, frozen=True, order=True):
    """A room that is taken, in office time."""

    start: dt.datetime
    end: dt.datetime
    room: str


class Slot(msgspec.Struct, frozen=True):
    """When and where the meeting is, in office time without zone."""

    start: dt.datetime
    end: dt.datetime
    room: str


@cache
def planned(parameters: Parameters) -> Slot:
    """The earliest slot for everybody, and the smallest room that is suitable and free."""
    start, end = _earliest(parameters)
    taken = {booking.room for booking in bookings(parameters) if booking.start < end and start < booking.end}
    return Slot(start, end, next(room for room in _suitable_rooms(parameters) if room not in taken))


@cache
def bookings(parameters: Parameters) -> tuple[Booking, ...]:
    """Every booking; the smallest suitable room is taken when the meeting ends, the next one from then on."""
    chance = random.Random(parameters.seed + 1)  # noqa: S311  reproducible test data, not secrets
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
    """The rooms with seats and equipment, the smallest first."""
    return [
        room
        for room, seats, equipment in sorted(ROOMS, key=lambda room: room[1])
        if seats >= len(parameters.invited) and parameters.equipment in equipment.split(";")
    ]


@cache
def _earliest(parameters: Parameters) -> tuple[dt.datetime, dt.datetime]:
    """The earliest start and its end; the calendars end somewhere, so there is one."""
    duration, busy = dt.timedelta(minutes=int(parameters.duration)), _busy(parameters)
    day = dt.date.fromisoformat(parameters.not_before)
    while True:
        for start in _starts_on(day, duration, parameters):
            if all(start + duration <= begin or end <= start for begin, end in busy):
                return start, start + duration
        day += dt.timedelta(days=1)


def _starts_on(day: dt.date, duration: dt.timedelta, parameters: Parameters) -> list[dt.datetime]:
    """Every start on a day that hours, lunch and closed days allow."""
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
    """When somebody invited is not free or needs the buffer, in office time."""
    offset, buffer = parameters.office_offset, dt.timedelta(minutes=int(parameters.buffer))
    spans = []
    for event in (event for name in parameters.invited for event in calendar_of(parameters, name)):
        if event.kind == "whole day":
            spans.append((event.start - buffer, event.end + buffer))
        elif event.kind == "busy":
            spans.append((event.start + offset - buffer, event.end + offset + buffer))
    return spans
