"""The checkpoints of meeting-planner: the invitation and the agenda."""

import datetime as dt
import re

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import CheckpointNotMet, OfficeDeliverables
from lhaw_record.runners.environments.benchmarks.desk.task import DeskCheckpoint, DeskTask
from lhaw_record.runners.environments.benchmarks.desk.tasks.meeting_planner.workspace import (
    ROOMS,
    TOPICS,
    Parameters,
    build,
    mail_of,
    planned,
)
from lhaw_record.runners.environments.benchmarks.desk.text_matching import heading_mentions, mentions

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
    mails = sorted(value.casefold().removeprefix("mailto:") for _, value in attendees)
    if mails != sorted(mail_of(name) for name in parameters.invited):
        raise CheckpointNotMet(f"{len(mails)} attendees, not exactly the {len(parameters.invited)} invited people")
    return f"the {len(mails)} invited people are the attendees"


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
