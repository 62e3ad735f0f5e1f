"""The workspace of meeting-planner: two sets of calendars, people, rooms and bookings, topics, rules, the request."""

from runners.benchmarks.desk.files import Files, csv_text
from runners.benchmarks.desk.tasks.meeting_planner.calendars import (
    PEOPLE,
    Parameters,
    calendar_of,
    ics_text,
    mail_of,
    team_of,
)
from runners.benchmarks.desk.tasks.meeting_planner.planning import CLOSED_DAY, LUNCH, ROOMS, bookings

TOPICS = (
    ("Delivery delays", 15, "open"), ("Price list", 20, "done"), ("Returns handling", 10, "open"),
    ("New packaging", 15, "postponed"), ("Contract terms", 20, "open"),
)  # fmt: skip
"""Topic, minutes, status."""


def build(parameters: Parameters) -> Files:
    """Make the workspace; the other set of calendars lacks a third of the entries."""
    other = "calendars/phones" if parameters.calendar_folder != "calendars/phones" else "calendars/server"
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
