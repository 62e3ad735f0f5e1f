"""Runs one import: read and parse the files, compare them with the store, and write the whole import or nothing."""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import msgspec
import pyarrow as pa

from lhaw_record.recorder.errors import DamagedStore, StoreError
from lhaw_record.recorder.events import (
    ImportRecorded,
    OracleBudgetSet,
    Skipped,
    TaskRegistered,
    Understood,
    VariantGenerated,
)
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.recorder.reading.reader import Snapshot, read_snapshot, stream_ids
from lhaw_record.recorder.reading.typed_rows import events_of_types, in_recorded_order
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.sealing.seal import seal
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.journal import JournalFile
from lhaw_record.recorder.storage.journal_format import MAX_BODY_BYTES
from lhaw_record.recorder.storage.manifest_check import check_manifest
from lhaw_record.recorder.storage.store import Store, check_experiment_id, has_store
from lhaw_record.recorder.writing.recorder import Clock
from lhaw_record.recorder.writing.redaction import Redactor, secrets_of
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.recorder.writing.stream import Draft
from lhaw_record.runners.imports.foreign_trial import (
    REFUSED,
    Failure,
    Finish,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
)
from lhaw_record.runners.imports.formats import Format, looks_like
from lhaw_record.runners.imports.source_files import check_used, read_sources, rewards_by_location, without_names
from lhaw_record.runners.imports.streams import ImportedStream, ImportPlan, assemble, closing_event

_TYPES = (TaskRegistered, VariantGenerated, OracleBudgetSet)
_NO_TIME_PASSES = Clock(monotonic_ns=lambda: 0)
"""A clock for an import, whose only times are those in the imported file."""


def load_records(snapshot: Snapshot) -> KnownRecords:
    """Return the store's variants, tasks and budgets that an import can use."""
    events = [envelope.event for envelope in sorted(events_of_types(snapshot, _TYPES), key=in_recorded_order)]
    return KnownRecords(
        variants={each.variant.variant_id: each.variant for each in events if isinstance(each, VariantGenerated)},
        tasks={
            (each.task.benchmark, each.task.task_id): each.task for each in events if isinstance(each, TaskRegistered)
        },
        budgets=tuple(each for each in events if isinstance(each, OracleBudgetSet)),
        registered=frozenset(
            digest(each.task if isinstance(each, TaskRegistered) else each.variant)
            for each in events
            if isinstance(each, TaskRegistered | VariantGenerated)
        ),
    )


def to_write(streams: Sequence[ImportedStream], present: Iterable[str]) -> list[ImportedStream]:
    """Return the trials that a store does not have yet.

    If the store has a trial without its result, the new one is a second attempt, and the first stays as missing data.
    """
    contents: dict[str, set[str]] = {}
    for stream_id in present:
        trial_id, _, rest = stream_id.partition("-")
        contents.setdefault(trial_id, set()).add(rest.partition("-")[2].partition("-")[0])
    missing = []
    for stream in streams:
        there = contents.get(stream.trial_id or "")
        if there is None:
            missing.append(stream)
        elif there == {stream.content_before} and stream.content != stream.content_before:
            missing.append(msgspec.structs.replace(stream, attempt=2))
        elif stream.content not in there:
            raise StoreError(
                f"the store already has trial {stream.trial_id}, with different content; nothing was added. "
                "Compare the two files; another repetition needs --trial-index, another agent --agent"
            )
    return missing


def write(store: Store, experiment_id: str, own: ImportedStream, trials: Sequence[ImportedStream]) -> int:
    """Write an import's own stream and its trials' streams durably. Return the number of events."""
    with store.hold_experiment(experiment_id):
        recover(store, experiment_id=experiment_id)
        present = stream_ids(store.root)
        if own.stream_id in present or len(to_write(trials, present)) < len(trials):
            raise StoreError(
                f"another import has just added some of these trials to {store.name}; run the same command again"
            )
        return anyio.run(_record, store, experiment_id, (*trials, own))


async def _record(store: Store, experiment_id: str, streams: Sequence[ImportedStream]) -> int:
    redactor = Redactor(secrets_of(os.environ))
    async with StoreRecorder(
        store, experiment_id, redactor=redactor, clock=_NO_TIME_PASSES, start_sealing=_SealedHere
    ) as recorder:
        drafts = [draft for stream in streams for draft in _drafts(recorder, stream)]
        size = sum(len(draft.payload) for draft in drafts)
        if size > MAX_BODY_BYTES:
            raise StoreError(f"the import has {size} bytes, more than one commit can hold; import the files one by one")
        await recorder.commit(drafts)
    return len(drafts)


class _SealedHere:
    """Seals the journal in this process, because an import has no other work to do in the meantime."""

    def __init__(self, store: Store, journal: JournalFile) -> None:
        self._is_sealed = False
        with suppress(OSError, DamagedStore, pa.ArrowException):  # the journal is whole, and wait() reports it
            seal(store, journal.path)
            self._is_sealed = True

    def wait(self) -> int:
        """Return 0 if the segment was written, or 1 if the journal remains."""
        return 0 if self._is_sealed else 1


def _drafts(recorder: StoreRecorder, imported: ImportedStream) -> list[Draft]:
    suffix = f"-{recorder.writer_id}" if recorder.store.address and imported.trial_id else ""
    attempt = imported.attempt if imported.trial_id else None
    stream = recorder.stream(imported.stream_id + suffix, trial_id=imported.trial_id, attempt=attempt)
    return stream.drafts(imported.events)


class Import(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an import, or of a dry run.

    ``already`` is the number of trials that were in the store before. ``is_known`` is true if the whole import was.
    ``labels`` distinguishes files with the same name, in the order of ``files``, of which ``refused`` brought nothing.
    """

    files: tuple[ImportRecorded, ...]
    labels: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    events: int
    trials: int
    already: int
    refused: int = 0
    is_known: bool = False


def run_import(
    form: Format, path: Path, root: Path, *, experiment_id: str, options: Options, is_dry_run: bool = False
) -> Import:
    """Import a file, or the files in a folder that match the format."""
    check_experiment_id(experiment_id)
    sources = read_sources(path, form.patterns)
    if options.hide_paths:
        sources = without_names(sources)
    has_one = has_store(root)
    if has_one:
        check_manifest(Store(root))
    present = stream_ids(root) if has_one else frozenset()
    known = load_records(read_snapshot(root)) if has_one else KnownRecords()
    placed = msgspec.structs.replace(options, rewards=rewards_by_location(options.rewards or {}, sources))
    found = _parsed(form, sources, placed, known)
    check_used(placed.rewards or {}, sources, found)
    read = [
        (source.folder, source.label, source.sha256, len(part.trials), len(part.registered))
        for source, part in zip(sources, found, strict=True)
    ]
    run_id = f"import-{digest([form.name, read, _identity_of(options)])[:24]}"
    assembled = assemble(
        form.name,
        run_id,
        [each for part in found for each in part.registered],
        [trial for part in found for trial in part.trials],
        known,
        {digest: states for part in found for digest, states in part.terminal_states.items()},
    )
    labels = tuple(source.label for source in sources)
    files = tuple(_recorded(form, source, part) for source, part in zip(sources, found, strict=True))
    if not assembled.registrations:
        raise ImportFailed(_nothing(path, form, files))
    missing = to_write(assembled.trials, present)
    is_known = run_id in present or (not missing and _is_registered(assembled, known))
    events = 0
    if is_known:
        missing = []
    else:
        own = _own_stream(run_id, files, assembled, missing)
        events = len(own.events) + sum(len(stream.events) for stream in missing)
        if not is_dry_run:
            events = write(create_store(root), experiment_id, own, missing)
    return Import(
        files=files,
        labels=labels,
        skipped=assembled.skipped,
        events=events,
        trials=len(missing),
        already=len(assembled.trials) - len(missing),
        refused=sum(each.kind == REFUSED for file in files for each in file.skipped),
        is_known=is_known,
    )


def _parsed(form: Format, sources: Sequence[SourceFile], options: Options, known: KnownRecords) -> list[ParsedFile]:
    """Return the content of each file; an error says if the file looks like another format."""
    try:
        return form.parse(sources, options, known)
    except ImportFailed as error:
        others = (name for source in sources if (name := looks_like(source)) not in (None, form.name))
        other = next(others, None)
        if other is None:
            raise
        raise ImportFailed(f"{error}. It looks like {other}: lhaw-record import {other}") from error


def _is_registered(assembled: ImportPlan, known: KnownRecords) -> bool:
    """Return whether the store already has every task, variant and label of an import."""
    events = assembled.registrations
    tasks = {digest(event.task) for event in events if isinstance(event, TaskRegistered)}
    variants = {digest(event.variant) for event in events if isinstance(event, VariantGenerated)}
    return tasks | variants <= known.registered


def _identity_of(options: Options) -> list[object]:
    """Return the options as part of the import's identity, with an instance file's content instead of its path."""
    given: list[object] = [options.agent, options.condition, options.trial_index, digest(options.instances)]
    names = ("benchmark", "task", "variant", "reward", "rewards", "columns", "arms")
    more = {name: value for name in names if (value := getattr(options, name)) is not None}
    more |= {"hide_paths": True} if options.hide_paths else {}
    return [*given, more] if more else given


def _recorded(form: Format, source: SourceFile, found: ParsedFile) -> ImportRecorded:
    return ImportRecorded(
        source_format=form.name,
        source_name=source.name,
        source_sha256=source.sha256,
        source_bytes=len(source.content),
        understood=tuple(Understood(kind=kind, count=count) for kind, count in _counts(found) if count),
        skipped=found.skipped,
        remarks=found.remarks,
    )


def _counts(found: ParsedFile) -> Iterable[tuple[str, int]]:
    yield "tasks", len({(t.benchmark, t.task_id) for t in found.registered if isinstance(t, Task)})
    yield "variants", len({v.variant_id for v in found.registered if isinstance(v, Variant)})
    ends = [trial.end for trial in found.trials]
    yield "trials with a result", sum(isinstance(end, Finish) for end in ends)
    yield "of these successful", sum(isinstance(end, Finish) and end.is_success for end in ends)
    yield "failed trials (missing data)", sum(isinstance(end, Failure) for end in ends)


def _own_stream(
    run_id: str, files: Sequence[ImportRecorded], assembled: ImportPlan, missing: Sequence[ImportedStream]
) -> ImportedStream:
    last = files[-1]
    files = (*files[:-1], msgspec.structs.replace(last, skipped=(*last.skipped, *assembled.skipped)))
    return ImportedStream(
        own_id=run_id, trial_id=None, events=(*files, *assembled.registrations, closing_event(run_id, missing))
    )


def _nothing(path: Path, form: Format, files: Sequence[ImportRecorded]) -> str:
    reasons = [f"{each.count} {each.kind}: {each.reason}" for file in files for each in file.skipped]
    why = "; ".join(reasons[:5]) or "it is empty"
    return f"nothing in {path} can be imported as {form.name} ({why}); docs/imports.md describes the format"
