"""Commands for attempts: ``discard`` sets them aside, ``note`` adds a note, ``answer`` is their user."""

import argparse
import time
from typing import TYPE_CHECKING, get_args

import anyio

from lhaw_record.recorder.cli.arguments import FORMAT, STORE
from lhaw_record.recorder.cli.command import ArgumentGroup, Command, argument, flag, repeatable
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.events import NoteCause, TrialsDiscarded, TrialsNoted
from lhaw_record.recorder.resources import user_name
from lhaw_record.recorder.sharing.address import store_name
from lhaw_record.runners.base.errors import ExperimentError

if TYPE_CHECKING:
    from pathlib import Path

    from lhaw_record.runners.users.simulated_user.person import OpenQuestion

_LOOK_S = 0.5
_FILTERS = ("agent", "condition", "benchmark", "task", "experiment", "run", "trial")
_DISCARD_COLUMNS = ("experiment", "run", "benchmark", "agent", "digest", "condition", "trials", "attempts")
_NOTE_COLUMNS = ("stream_id", "cause", "author", "note", "agent", "condition", "benchmark", "state")


_WHICH_TRIALS = ArgumentGroup(
    "which trials (all options must match; of a repeated option, one value is enough)",
    tuple(
        repeatable(f"--{name}", "ID" if name in ("run", "trial") else "NAME", f"only this {name}") for name in _FILTERS
    ),
)


def discard_command(options: argparse.Namespace) -> int:
    """Set trials aside, take them back in, or list those that are. The exit code is 1 if there is nothing to do."""
    from lhaw_record.recorder.reading.reader import read_snapshot
    from lhaw_record.recorder.storage.creation import create_store
    from lhaw_record.runners.runs.discarding import chosen, grouped, read_attempts, record_decision, without_repeats

    wanted = _filters(options)
    attempts = read_attempts(read_snapshot(options.store))
    if not wanted:
        if options.reason or options.undo or options.rerun:
            raise ExperimentError(f"choose trials with one of --{', --'.join(_FILTERS)}")
        rows = grouped([each for each in attempts if each.discarded])
        print_rows(rows, (*_DISCARD_COLUMNS, "is_owed", "reason"), options.format)
        say(f"{sum(each.discarded is not None for each in attempts)} attempts are set aside")
        return 0
    if options.undo and options.rerun:
        raise ExperimentError("--undo includes trials again, and --rerun sets them aside; remove one of the two")
    decision = TrialsDiscarded(
        stream_ids=(), reason=options.reason or "", is_owed=options.rerun, is_undone=options.undo
    )
    meant = chosen(attempts, wanted)
    if not (decision.reason.strip() or options.undo):
        raise ExperimentError("give the reason with --reason TEXT; it is recorded for readers of the store")
    changed = [each for each in meant if each.is_changed_by(decision)]
    found = changed if options.undo or options.repeats else without_repeats(changed, attempts)
    print_rows(grouped(found), _DISCARD_COLUMNS, options.format)
    if len(found) < len(changed):
        say(f"{len(changed) - len(found)} attempts made since a --rerun were left unchanged; --repeats includes them")
    trials = len({each.trial_id for each in found})
    what = "included again" if options.undo else "set aside, to be run again" if options.rerun else "set aside"
    if not found:
        say(
            f"{store_name(options.store)}: nothing to do; these trials are already {'in use' if options.undo else what}"
        )
        return 1
    if options.dry_run:
        say(f"{trials} trials would be {what}")
        return 0
    anyio.run(record_decision, create_store(options.store), found, decision)
    undo = "" if options.undo else "; the same command with --undo includes them again"
    say(f"{store_name(options.store)}: {trials} trials are {what}{undo}")
    return 0


def note_command(options: argparse.Namespace) -> int:
    """Note something about trials, take a note back, or list the notes. The exit code is 1 if no note is found."""
    from lhaw_record.recorder.reading.annotations import read_notes
    from lhaw_record.recorder.reading.reader import read_snapshot
    from lhaw_record.recorder.storage.creation import create_store
    from lhaw_record.runners.runs.discarding import chosen, read_attempts, record_note

    wanted = _filters(options)
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
        print_rows(rows, _NOTE_COLUMNS, options.format)
        say(f"{len(rows)} notes; notes change no number ('discard' excludes trials)")
        return 0 if rows else 1
    if not wanted:
        raise ExperimentError(f"choose trials with one of --{', --'.join(_FILTERS)}")
    if options.undo:
        if options.text is not None:
            raise ExperimentError("--undo takes a note back, so it has no text; remove --undo or the text")
        meant = [each for each in meant if options.by in {note.author for note in notes.get(each.stream_id, ())}]
        if not meant:
            raise ExperimentError(f"no note about these trials is by {options.by or 'nobody; give the name with --by'}")
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


def answer_command(options: argparse.Namespace) -> int:
    """Show each question that waits for a person, and read the answer, until the input ends."""
    from lhaw_record.recorder.storage.store import Store
    from lhaw_record.runners.users.simulated_user.person import open_questions

    folder, left, by = Store(options.store).questions_dir, set[str](), options.by or user_name()
    say(
        "waiting for questions; Ctrl-C stops. An empty line leaves a question to others, '?' shows the full prompt, "
        "'-' declines, and anything else is your answer"
    )
    try:
        while True:
            waiting = [each for each in open_questions(folder) if each.question_id not in left]
            for each in waiting:
                left.add(each.question_id)
                _answer_one(folder, each, by)
            if options.once:
                return 0
            time.sleep(0 if waiting else _LOOK_S)
    except (EOFError, KeyboardInterrupt):
        return 0


def _answer_one(folder: "Path", asked: "OpenQuestion", by: str) -> None:
    from lhaw_record.runners.users.simulated_user.person import GivenAnswer, give

    lines = (
        f"{asked.agent} on {asked.task} ({asked.experiment}). You had written:\n\n{asked.sent_prompt}\n",
        *([f"The agent says:\n{asked.context}\n"] if asked.context else []),
        f"The agent asks: {asked.question}",
    )
    say("\n" + "\n".join(lines))
    text, saw_values = input("> ").strip(), False
    while text == "?":
        saw_values = True
        say(f"The full prompt:\n\n{asked.full_prompt}\n")
        text = input("> ").strip()
    if text:
        answer = GivenAnswer(text=None if text == "-" else text, by=by, saw_values=saw_values)
        is_first = give(folder, asked.question_id, answer)
        say("given" if is_first else "too late: it was answered elsewhere, or its trial has ended")


def _filters(options: argparse.Namespace) -> dict[str, list[str]]:
    return {key: getattr(options, key) for key in _FILTERS if getattr(options, key)}


COMMANDS = (
    Command(
        name="discard",
        help="exclude trials from every table, or include them again",
        description="Set aside all ended attempts of the chosen trials. Tables, findings, report, papers and "
        "'compare' then leave them out, count them as missing if their cell has other trials, and print their "
        "number. Nothing is deleted, and the last decision counts. A version of an agent is NAME#DIGEST, as in "
        "tables. Without a filter, print the attempts that are set aside.",
        example="discard stores/lab --agent mine#3f0a1c --reason 'the prompt had a typing error'",
        arguments=(
            STORE,
            argument("--reason", metavar="TEXT", help="the reason, which is recorded"),
            flag("--undo", "include the trials again"),
            flag("--rerun", "let the next run attempt these trials again, at new cost (default: it does not)"),
            flag("--repeats", "also set aside attempts made since an earlier --rerun, which otherwise stay in use"),
            _WHICH_TRIALS,
            flag("--dry-run", "only print what would be set aside"),
            FORMAT,
        ),
        function=discard_command,
    ),
    Command(
        name="note",
        help="write a note about trials, or list the notes",
        description="Record what you saw in the ended attempts of the chosen trials, and the cause. 'show', the "
        "report, the daemon's page and the view trial_notes show the note. Notes change no number: 'discard' "
        "excludes trials. Your last note about an attempt counts. Without TEXT, print the notes.",
        example="note stores/lab 'the price list was empty' --trial 7f3a --cause infrastructure --by anna",
        arguments=(
            STORE,
            argument("text", nargs="?", metavar="TEXT", help="what you saw"),
            argument("--by", metavar="NAME", help="your name, which is recorded"),
            argument("--cause", choices=get_args(NoteCause), help="the cause"),
            flag("--undo", "take your note back"),
            _WHICH_TRIALS,
            FORMAT,
        ),
        function=note_command,
    ),
    Command(
        name="answer",
        help="answer agents' questions instead of a simulated user",
        description='Show the open questions of running experiments with [user_simulator] kind = "person", and read '
        "the answers from the terminal. The record has who answered, how long it took, and whether they saw the full "
        "prompt. You can also answer on the daemon's page.",
        example="answer stores/lab --by anna",
        arguments=(
            STORE,
            argument("--by", metavar="NAME", help="your name, which is recorded (default: your login)"),
            flag("--once", "only the questions that are open now"),
        ),
        function=answer_command,
    ),
)
