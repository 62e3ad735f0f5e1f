"""What a death may leave, and what it must: every acknowledged event once and in order, nothing half, all mendable."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from lhaw_record.recorder.errors import RecorderError
from lhaw_record.recorder.events import Envelope, TrialFailed
from lhaw_record.recorder.files.layout import MARKER
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes, stream_ids
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.sealing.compaction import compact
from lhaw_record.recorder.storage.creation import create_store
from tests.crash.unsynced import UnsyncedDisk
from tests.crash.workload import APPENDS, append_of, stream_number


def problems_after(root: Path, acknowledged: Mapping[str, int], *, appends: int = APPENDS) -> list[str]:
    """Return what is wrong with a store after a death; an empty list is what the guarantee promises.

    Args:
        root: The store, with no living writer.
        acknowledged: For each stream the number of its appends that returned.
        appends: Appends of a whole stream.
    """
    try:
        return _problems(root, acknowledged, appends)
    except Exception as error:  # noqa: BLE001 - whatever a reader or recovery raises is a finding
        return [f"{type(error).__name__}: {error}"]


def _problems(root: Path, acknowledged: Mapping[str, int], appends: int) -> list[str]:
    before = _streams(read_envelopes(root)) if (root / MARKER).exists() else {}
    found = [f"before recovery: {problem}" for problem in wrong_with(before, acknowledged, appends)]
    store = create_store(root, UnsyncedDisk())
    recover(store)
    after = _streams(read_envelopes(root))
    found += [f"after recovery: {problem}" for problem in wrong_with(after, acknowledged, appends)]
    for stream_id, envelopes in before.items():
        if after.get(stream_id, [])[: len(envelopes)] != envelopes:
            found.append(f"recovery changed stream {stream_id}")
    report = verify(root)
    found += [f"verify: {finding.problem}" for finding in report.findings]
    if report.journals or report.open_streams:
        found.append(f"recovery left {report.journals} journals and {report.open_streams} open streams")
    files = _files(root)
    if recover(store):
        found.append("a second recovery found something to do")
    if _files(root) != files:
        found.append("a second recovery changed files")
    segments = [path for path in files if path.parent.parent.name == "events" and path.name[0] in "wc"]
    if any(path.suffix == ".tmp" for path in segments):
        found.append("recovery left temporary files")
    found += [f"at rest: {problem}" for problem in _doubles(root)]
    compact(store)
    found += [f"after compaction: {problem}" for problem in _doubles(root)]
    compact(store, grace_s=0.0)
    if _streams(read_envelopes(root)) != after or stream_ids(root) != after.keys():
        found.append("compaction changed the events")
    return found


def _doubles(root: Path) -> list[str]:
    """What a reader that knows nothing of segments sees twice: by the pattern that the documentation names."""
    keys: Counter[tuple[str, int]] = Counter()
    for path in root.glob("events/**/*.parquet"):
        rows = pq.read_table(path, columns=["stream_id", "sequence"], partitioning=None)
        keys.update(zip(rows["stream_id"].to_pylist(), rows["sequence"].to_pylist(), strict=True))
    doubled = [key for key, count in keys.items() if count > 1]
    return [f"foreign readers see {len(doubled)} events more than once"] if doubled else []


def wrong_with(
    streams: Mapping[str, list[Envelope]], acknowledged: Mapping[str, int], appends: int = APPENDS
) -> list[str]:
    """Return what is wrong with the events that a reader sees.

    A stream must be a prefix of what was appended, whole appends only, as long as was acknowledged; recovery may have
    closed it.
    """
    gone = acknowledged.keys() - streams.keys()
    found = [f"stream {stream_id} with {acknowledged[stream_id]} acknowledged appends is gone" for stream_id in gone]
    for stream_id, envelopes in streams.items():
        sequences = [envelope.sequence for envelope in envelopes]
        if sequences != list(range(len(sequences))):
            found.append(f"stream {stream_id} has the sequences {sequences}")
            continue
        events = [envelope.event for envelope in envelopes]
        if isinstance(events[-1], TrialFailed) and events[-1].error_kind == "interrupted":
            del events[-1]
        complete = _complete_appends(stream_number(stream_id), events, appends)
        if complete is None:
            found.append(f"stream {stream_id} holds {len(events)} events that are not whole appends of it")
        elif complete < acknowledged.get(stream_id, 0):
            found.append(f"stream {stream_id} has {complete} of {acknowledged[stream_id]} acknowledged appends")
    return found


def _complete_appends(stream: int, events: list[object], appends: int) -> int | None:
    """How many whole appends a list of events is; None when it is something else."""
    place = 0
    for number in range(appends):
        if place == len(events):
            return number
        expected = append_of(stream, number, appends)
        got = events[place : place + len(expected)]
        if [_without_digest(event) for event in got] != list(expected):
            return None
        place += len(expected)
    return appends if place == len(events) else None


def _without_digest(event: object) -> object:
    return msgspec.structs.replace(event, stream_digest="") if isinstance(event, TrialFailed) else event


def _streams(envelopes: list[Envelope]) -> dict[str, list[Envelope]]:
    streams = defaultdict(list)
    for envelope in envelopes:
        streams[envelope.stream_id].append(envelope)
    return {stream_id: sorted(found, key=lambda each: each.sequence) for stream_id, found in streams.items()}


def _files(root: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file() and path.parent.name != "locks"}


class Watching:
    """A reader that looks again and again while writers work: streams only grow, and never show a gap or a double."""

    def __init__(self, root: Path, appends: int = APPENDS) -> None:
        self.looks = 0
        self.problems: list[str] = []
        self._root = root
        self._appends = appends
        self._seen: dict[str, int] = {}

    def look(self) -> None:
        """Look once."""
        if not (self._root / MARKER).exists():
            return
        try:
            streams = _streams(read_envelopes(self._root))
        except RecorderError as error:
            self.problems.append(f"a reader met {type(error).__name__}: {error}")
            return
        self.problems += [f"a reader saw: {each}" for each in wrong_with(streams, {}, self._appends)]
        for stream_id, count in self._seen.items():
            if len(streams.get(stream_id, [])) < count:
                self.problems.append(f"a reader saw stream {stream_id} shrink")
        self._seen = {stream_id: len(events) for stream_id, events in streams.items()}
        self.looks += 1
