"""meeting-planner, solved by hand from the files."""

from datetime import datetime, timedelta

from tests.runners.environments.benchmarks.desk.solutions import csv_rows, save

ALTERNATIVES = {
    "title": ["Audit kick-off", "Plant visit 2026"],
    "attendees": ["Anton Reuter, Yuki Mori", "Bea Lindqvist, Farid Nasser, Tobias Kern", "Luis Prieto, Mira Sandberg"],
    "calendar_folder": ["calendars/phones", "exports/october"],
    "office_clock": ["UTC", "UTC+1", "UTC+3", "UTC-1"],
    "duration": ["45", "60", "90"],
    "not_before": ["2025-10-08", "2025-10-11", "2025-10-16"],
    "day_start": ["08:00", "10:00"],
    "day_end": ["15:45", "18:00"],
    "buffer": ["0", "5", "20"],
    "equipment": ["projector", "whiteboard"],
    "invitation_file": ["out/meeting.ics", "kickoff.ics"],
    "agenda_file": ["out/topics.md", "plan.md"],
    "seed": [1, 2, 3],
}


def _busy_minutes(folder, parameters, names, calendars, *, everything=False):
    """Paint every blocked minute, in office time and with the buffer, like a wall planner."""
    hours = timedelta(hours=int(parameters.office_clock[3:] or 0))
    buffer, minute = timedelta(minutes=int(parameters.buffer)), timedelta(minutes=1)
    painted = set()
    for name in names:
        for text in (
            (folder / calendars / f"{name.lower().replace(' ', '_')}.ics").read_text().split("BEGIN:VEVENT")[1:]
        ):
            if ("CANCELLED" in text or "TRANSPARENT" in text) and not everything:
                continue
            start, end = (line.partition(":")[2] for line in text.splitlines() if line.startswith(("DTSTART", "DTEND")))
            if "T" in start:
                begin = datetime.fromisoformat(start.rstrip("Z")) + hours - buffer
                until = datetime.fromisoformat(end.rstrip("Z")) + hours + buffer
            else:
                begin, until = datetime.fromisoformat(start), datetime.fromisoformat(end)
            while begin < until:
                painted.add(begin)
                begin += minute
    return painted


def _slot(folder, parameters, *, names=None, calendars=None, minutes=None, everything=False):
    names = names or parameters.attendees.split(", ")
    busy = _busy_minutes(folder, parameters, names, calendars or parameters.calendar_folder, everything=everything)
    minutes = int(minutes or parameters.duration)
    start = datetime.fromisoformat(f"{parameters.not_before} 00:00")
    while True:
        needed = [start + timedelta(minutes=number) for number in range(minutes)]
        clocks = [f"{at:%H:%M}" for at in (*needed, start + timedelta(minutes=minutes))]
        is_right_time = parameters.day_start <= clocks[0] <= clocks[-1] <= parameters.day_end
        has_lunch = any(clock[:2] == "12" for clock in clocks[:-1])
        is_right_day = start.weekday() < 5 and f"{start:%m-%d}" != "10-09"
        if is_right_time and is_right_day and not has_lunch and busy.isdisjoint(needed):
            return start, start + timedelta(minutes=minutes)
        start += timedelta(minutes=15)


def _room(folder, parameters, start, end, *, ignores_bookings=False):
    day, begin, until = f"{start:%Y-%m-%d}", f"{start:%H:%M}", f"{end:%H:%M}"
    booked = {
        row["room"]
        for row in csv_rows(folder / "room_bookings.csv")
        if row["date"] == day and row["start"] < until and begin < row["end"] and not ignores_bookings
    }
    fitting = [
        (int(row["seats"]), row["room"])
        for row in csv_rows(folder / "rooms.csv")
        if parameters.equipment in row["equipment"] and row["room"] not in booked
    ]
    return min(pair for pair in fitting if pair[0] >= len(parameters.attendees.split(", ")))[1]


def _invite(folder, parameters, start, end, room, *, title=None, names=None, zone="Z", lines=None, line_end="\r\n"):
    hours = timedelta(hours=int(parameters.office_clock[3:] or 0)) if zone == "Z" else timedelta()
    mails = {row["name"]: row["mail"] for row in csv_rows(folder / "people.csv")}
    names = names or parameters.attendees.split(", ")
    times = [f"DTSTART:{start - hours:%Y%m%dT%H%M%S}{zone}", f"DTEND:{end - hours:%Y%m%dT%H%M%S}{zone}"]
    body = lines or [
        *times,
        f"SUMMARY:{title or parameters.title}",
        f"LOCATION:{room}",
        *(f"ATTENDEE:mailto:{mails[name]}" for name in names),
    ]
    text = line_end.join(["BEGIN:VCALENDAR", "VERSION:2.0", "BEGIN:VEVENT", *body, "END:VEVENT", "END:VCALENDAR", ""])
    save(folder / parameters.invitation_file, text)


def _agenda(folder, parameters, start, line, *, title=None, everything=False):
    lines = []
    for row in csv_rows(folder / "topics.csv"):
        if row["status"] == "open" or everything:
            lines.append(line.format(start, row["topic"], row["minutes"]))
            start += timedelta(minutes=int(row["minutes"]))
    save(folder / parameters.agenda_file, "\n".join([f"# {title or parameters.title}", "", *lines, ""]))


def plain(folder, parameters):
    """Exactly as the prompt says."""
    start, end = _slot(folder, parameters)
    _invite(folder, parameters, start, end, _room(folder, parameters, start, end))
    _agenda(folder, parameters, start, "- {0:%H:%M} {1}")


def elaborate(folder, parameters):
    """Unix line ends, folded lines, a duration in place of the end, names with addresses; the agenda is a table."""
    start, end = _slot(folder, parameters)
    room = _room(folder, parameters, start, end)
    began = start - timedelta(hours=int(parameters.office_clock[3:] or 0))
    mails = {row["name"]: row["mail"] for row in csv_rows(folder / "people.csv")}
    lines = [
        "UID:1@x",
        f"DTSTART;TZID=UTC:{began:%Y%m%dT%H%M%S}",
        f"DURATION:PT{(end - start).seconds // 3600}H{(end - start).seconds // 60 % 60}M",
        f"SUMMARY:{parameters.title[:4]}\n {parameters.title[4:]}",
        f"LOCATION:Room {room}\\, ground floor",
        "ORGANIZER:mailto:assistant@brightline.example",
        *(
            f'ATTENDEE;CN="{name}";ROLE=REQ-PARTICIPANT:\n MAILTO:{mails[name].upper()}'
            for name in reversed(parameters.attendees.split(", "))
        ),
    ]
    _invite(folder, parameters, start, end, room, lines=lines, line_end="\n")
    _agenda(folder, parameters, start, "| {0:%H:%M} | **{1}** | {2} min |", title=f"Agenda: {parameters.title}")


def other_calendars(folder, parameters):
    """Goes by the copy of the calendars, ignores the bookings, and lists closed topics too."""
    own = folder / parameters.calendar_folder
    other = next(path.parent for path in sorted(folder.rglob("*.ics")) if path.parent != own)
    start, end = _slot(folder, parameters, calendars=other)
    _invite(
        folder, parameters, start, end, _room(folder, parameters, start, end, ignores_bookings=True), title="Meeting"
    )
    _agenda(folder, parameters, start, "- {0:%H:%M} {1}", everything=True)


def everybody_for_an_hour(folder, parameters):
    """Invites all people for an hour, and takes cancelled entries for appointments."""
    names = [row["name"] for row in csv_rows(folder / "people.csv")]
    start, end = _slot(folder, parameters, names=names, minutes=60, everything=True)
    _invite(folder, parameters, start, end, "Larch", names=names)
    _agenda(folder, parameters, start, "- {0:%H:%M} {1}", title="Topics")


def office_time(folder, parameters):
    """Finds the slot but writes office time without a zone, names for addresses, and a second event."""
    start, end = _slot(folder, parameters)
    _invite(folder, parameters, start, end, "a room", zone="", names=parameters.attendees.split(", ")[:1])
    path = folder / parameters.invitation_file
    path.write_text(path.read_text() + "BEGIN:VEVENT\nEND:VEVENT\n")
    _agenda(folder, parameters, start, "- {1}")


CORRECT = (plain, elaborate)
WRONG = (other_calendars, everybody_for_an_hour, office_time)
