"""The names of the streams that a store holds of an experiment: none of them is given a second time."""

from recorder.errors import DamagedStore
from recorder.journal import JournalContent, read_header, read_journal
from recorder.segments import list_segments
from recorder.store import Store
from recorder.stream_index import load_index

_MOST_LOOKS = 100


def names_in_use(store: Store, experiment_id: str) -> frozenset[str]:
    """Return the names of an experiment's streams in segments and journals of this host, closed or not.

    A shared store is not brought up to date for it: names there hold their writer's.

    Raises:
        DamagedStore: A file cannot be read.
        OSError: The disk refuses.
    """
    for _ in range(_MOST_LOOKS):
        try:
            return _look(store, experiment_id)
        except FileNotFoundError:  # sealed or merged under the look
            continue
    return _look(store, experiment_id)


def _look(store: Store, experiment_id: str) -> frozenset[str]:
    import pyarrow as pa

    found: set[str] = set()
    for path in store.journals().values():
        header = read_header(path)
        if header is not None and header.experiment_id == experiment_id:
            content = read_journal(path, path.read_bytes())
            found.update(_streams_of(content) if content else ())
    for segment in list_segments(store).chosen:
        if segment.experiment_id == experiment_id:
            try:
                found.update(load_index(store, segment.path)["stream_id"].to_pylist())
            except pa.ArrowException as error:
                raise DamagedStore(
                    f"{segment.path} cannot be read ({error}); 'lhaw-record log verify' shows more"
                ) from error
    return frozenset(found)


def _streams_of(content: JournalContent) -> set[str]:
    return {envelope.stream_id for envelope in content.envelopes()}
