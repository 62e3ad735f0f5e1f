"""The command ``discard``, which sets trials aside so that no table uses them."""

import argparse

from lhaw_record.recorder.cli.arguments import FORMAT, STORE
from lhaw_record.recorder.cli.command import ArgumentGroup, Command, argument, flag, repeatable
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.sharing.address import store_name
from lhaw_record.runners.base.errors import ExperimentError

FILTERS = ("agent", "condition", "benchmark", "task", "experiment", "run", "trial")
_COLUMNS = ("experiment", "run", "benchmark", "agent", "digest", "condition", "trials", "attempts")


def which_trials() -> ArgumentGroup:
    """Return the options that choose ended attempts."""
    return ArgumentGroup(
        "which trials (each may be given several times; several kinds narrow the choice)",
        tuple(
            repeatable(f"--{name}", "ID" if name in ("run", "trial") else "NAME", f"only this {name}")
            for name in FILTERS
        ),
    )


def discard_command(options: argparse.Namespace) -> int:
    """Set trials aside, take them back in, or list those that are. The exit code is 1 if there is nothing to do."""
    import anyio

    from lhaw_record.recorder.events import TrialsDiscarded
    from lhaw_record.recorder.reading.reader import read_snapshot
    from lhaw_record.recorder.storage.creation import create_store
    from lhaw_record.runners.runs.discarding import chosen, grouped, read_attempts, record_decision, without_repeats

    wanted = {key: getattr(options, key) for key in FILTERS if getattr(options, key)}
    attempts = read_attempts(read_snapshot(options.store))
    if not wanted:
        if options.reason or options.undo or options.rerun:
            raise ExperimentError(f"name what is meant, by one of --{', --'.join(FILTERS)}")
        rows = grouped([each for each in attempts if each.discarded])
        print_rows(rows, (*_COLUMNS, "is_owed", "reason"), options.format)
        say(f"{sum(each.discarded is not None for each in attempts)} attempts are set aside")
        return 0
    if options.undo and options.rerun:
        raise ExperimentError("--undo takes trials back in, and --rerun sets them aside; leave one of them out")
    decision = TrialsDiscarded(
        stream_ids=(), reason=options.reason or "", is_owed=options.rerun, is_undone=options.undo
    )
    meant = chosen(attempts, wanted)
    if not (decision.reason.strip() or options.undo):
        raise ExperimentError("say why with --reason TEXT: it is recorded, and readers of the store will ask")
    changed = [each for each in meant if each.is_changed_by(decision)]
    found = changed if options.undo or options.repeats else without_repeats(changed, attempts)
    print_rows(grouped(found), _COLUMNS, options.format)
    if len(found) < len(changed):
        say(f"left as they are: {len(changed) - len(found)} attempts made since a --rerun; --repeats means those too")
    trials = len({each.trial_id for each in found})
    what = "taken back in" if options.undo else "set aside and owed again" if options.rerun else "set aside"
    if not found:
        say(
            f"{store_name(options.store)}: nothing to do; what is meant is {'in use' if options.undo else what} already"
        )
        return 1
    if options.dry_run:
        say(f"{trials} trials would be {what}")
        return 0
    anyio.run(record_decision, create_store(options.store), found, decision)
    undo = "" if options.undo else "; the same command with --undo takes them back in"
    say(f"{store_name(options.store)}: {trials} trials are {what}{undo}")
    return 0


COMMANDS = (
    Command(
        name="discard",
        help="exclude trials from every table, or include them again",
        description="Set all ended attempts of the chosen trials aside: tables, findings, report, papers and 'compare' "
        "are as if they had never been, and say how many there are. Nothing is deleted, and the last decision counts. "
        "A version of an agent is NAME#DIGEST, as in tables. Without a filter, print what is set aside.",
        example="discard stores/lab --agent mine#3f0a1c --reason 'the prompt had a typing error'",
        arguments=(
            STORE,
            argument("--reason", metavar="TEXT", help="why; it is recorded"),
            flag("--undo", "take the trials back in"),
            flag("--rerun", "let the next run attempt them again; otherwise they are not paid for twice"),
            flag("--repeats", "set aside also what was attempted since an earlier --rerun; it is kept otherwise"),
            which_trials(),
            flag("--dry-run", "only print what would be set aside"),
            FORMAT,
        ),
        function=discard_command,
    ),
)
