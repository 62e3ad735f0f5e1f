"""Runs one import: read and parse the files, compare them with the store, and write the whole import or nothing."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from lhaw_record.recorder.events import ImportRecorded, Skipped, TaskRegistered, Understood, VariantGenerated
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.recorder.reading.reader import read_snapshot, stream_ids
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.manifest_check import check_manifest
from lhaw_record.recorder.storage.store import Store, check_experiment_id, has_store
from lhaw_record.runners.imports.foreign_trial import (
    Failure,
    Finish,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
)
from lhaw_record.runners.imports.formats import Format, looks_like
from lhaw_record.runners.imports.source_files import check_used, read_sources, rewards_by_location
from lhaw_record.runners.imports.store_access import load_records, to_write, write
from lhaw_record.runners.imports.streams import ImportedStream, ImportPlan, assemble, closing_event


class Import(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an import, or of a dry run.

    ``already`` is the number of trials that were in the store before. ``is_known`` is true if the whole import was.
    ``labels`` distinguishes files with the same name, in the order of ``files``.
    """

    files: tuple[ImportRecorded, ...]
    labels: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    events: int
    trials: int
    already: int
    is_known: bool = False


def run_import(
    form: Format, path: Path, root: Path, *, experiment_id: str, options: Options, is_dry_run: bool = False
) -> Import:
    """Import a file, or the files in a folder that match the format."""
    check_experiment_id(experiment_id)
    sources = read_sources(path, form.patterns)
    has_one = has_store(root)
    if has_one:
        check_manifest(Store(root))
    present = stream_ids(root) if has_one else frozenset()
    known = load_records(read_snapshot(root)) if has_one else KnownRecords()
    placed = msgspec.structs.replace(options, rewards=rewards_by_location(options.rewards or {}, sources))
    found = _parsed(form, sources, placed, known)
    check_used(placed.rewards or {}, sources, found)
    run_id = f"import-{digest([form.name, [source.sha256 for source in sources], _identity_of(options)])[:24]}"
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
    names = ("benchmark", "task", "variant", "reward", "rewards")
    more = {name: value for name in names if (value := getattr(options, name)) is not None}
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
