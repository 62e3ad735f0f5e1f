"""The command ``note``, with which a person marks trials. It changes no number."""

import argparse
from typing import get_args

from lhaw_record.recorder.cli.arguments import FORMAT, STORE
from lhaw_record.recorder.cli.command import Command, argument, flag
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.events import NoteCause
from lhaw_record.recorder.sharing.address import store_name
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.cli.discard_command import FILTERS, which_trials

_COLUMNS = ("stream_id", "cause", "author", "note", "agent", "condition", "benchmark", "state")


def note_command(options: argparse.Namespace) -> int:
    """Note something about trials, take a note back, or list the notes. The exit code is 1 if no note is found."""
    import anyio

    from lhaw_record.recorder.events import TrialsNoted
    from lhaw_record.recorder.reading.annotations import read_notes
    from lhaw_record.recorder.reading.reader import read_snapshot
    from lhaw_record.recorder.storage.creation import create_store
    from lhaw_record.runners.runs.discarding import chosen, read_attempts

    wanted = {key: getattr(options, key) for key in FILTERS if getattr(options, key)}
    snapshot = read_snapshot(options.store)
    meant = chosen(read_attempts(snapshot), wanted)
    notes = read_notes(snapshot)
    if options.text is None and not options.undo:
        if options.by or options.cause:
            raise ExperimentError("there is no text to note; give it after the store")
        rows = [
            {
                "stream_id": each.stream_id,
                "cause": note.cause,
                "author": note.author,
                "note": note.note,
                "agent": each.started.agent,
                "condition": each.started.condition,
                "benchmark": each.started.benchmark,
                "state": each.state,
            }
            for each in meant
            for note in notes.get(each.stream_id, ())
        ]
        print_rows(rows, _COLUMNS, options.format)
        say(f"{len(rows)} notes; they change no number, and 'discard' leaves trials out")
        return 0 if rows else 1
    if not wanted:
        raise ExperimentError(f"name what is meant, by one of --{', --'.join(FILTERS)}")
    if options.undo:
        if options.text is not None:
            raise ExperimentError("--undo takes a note back and has no text; leave one of them out")
        meant = [each for each in meant if options.by in {note.author for note in notes.get(each.stream_id, ())}]
        if not meant:
            raise ExperimentError(f"{options.by or 'nobody, as --by is missing,'} has no note about these trials")
    note = TrialsNoted(
        stream_ids=tuple(each.stream_id for each in meant),
        author=options.by or "",
        note=options.text or "",
        cause=options.cause,
        is_undone=options.undo,
    )
    anyio.run(record_note, create_store(options.store), note)
    verb = "without their note" if options.undo else "noted"
    say(f"{store_name(options.store)}: attempts {verb}: {len(meant)}")
    return 0


COMMANDS = (
    Command(
        name="note",
        help="write a note about trials, or list the notes",
        description="Note about all ended attempts of the chosen trials what you saw, and what is to blame for it. "
        "'show', the report, the daemon's page and the view trial_notes tell it. No number changes: 'discard' leaves "
        "trials out. Your last note about an attempt counts. Without TEXT, print the notes.",
        example="note stores/lab 'the price list was empty' --trial 7f3a --cause infrastructure --by anna",
        arguments=(
            STORE,
            argument("text", nargs="?", metavar="TEXT", help="what you saw"),
            argument("--by", metavar="NAME", help="your name; it is recorded"),
            argument("--cause", choices=get_args(NoteCause), help="what is to blame"),
            flag("--undo", "take your note back"),
            which_trials(),
            FORMAT,
        ),
        function=note_command,
    ),
)
