"""Separated streams: two recordings that an earlier version gave one stream id, told apart by their writers.

The stored rows keep their id. ``log repair`` closes the recording that was left open under an id of its own, and notes
in ``repairs/`` which rows belong to it; readers give them that id.
"""

import json
import secrets
from collections.abc import Iterable, Mapping

import msgspec
import pyarrow as pa

from lhaw_record.recorder.errors import DamagedStore
from lhaw_record.recorder.files.disk import publish
from lhaw_record.recorder.storage.store import Store


class Separation(msgspec.Struct, frozen=True, order=True):
    """Says that one writer's rows in a stream belong to a separate stream, ``own_id``."""

    experiment_id: str
    stream_id: str
    writer_id: str
    own_id: str


Separations = Mapping[tuple[str, str, str], str]
"""The id of a separated stream, by (experiment_id, stored stream_id, writer_id)."""


def read_separations(store: Store) -> Separations:
    """Return the separations of a store. Nearly every store has none."""
    found: dict[tuple[str, str, str], str] = {}
    for path in sorted(store.repairs_dir.glob("*.json")):
        try:
            separated = msgspec.json.decode(path.read_bytes(), type=dict[str, list[Separation]])["separated"]
        except (msgspec.MsgspecError, KeyError) as error:
            raise DamagedStore(
                f"{path} is damaged ({error}); move it away, then 'lhaw-record log repair' writes it again"
            ) from error
        found.update({(each.experiment_id, each.stream_id, each.writer_id): each.own_id for each in separated})
    return found


def write_separations(store: Store, separated: Iterable[Separation]) -> None:
    """Write separations, so that readers apply them."""
    store.disk.make_directory(store.repairs_dir)
    store.disk.sync_directory(store.root)
    content = {"separated": [msgspec.structs.asdict(each) for each in sorted(separated)]}
    publish(store.disk, store.repairs_dir / f"{secrets.token_hex(6)}.json", json.dumps(content, indent=1).encode())


def named(table: pa.Table, separations: Separations) -> pa.Table:
    """Return rows in the same order, with the ids of separated streams filled in."""
    if not separations or "stream_id" not in table.column_names or not table.num_rows:
        return table
    import pyarrow.compute as pc

    present = set(table["writer_id"].unique().to_pylist())
    names = table["stream_id"]
    for (experiment_id, stream_id, writer_id), own_id in separations.items():
        if writer_id in present:
            is_meant = pc.and_(
                pc.and_(pc.equal(table["stream_id"], stream_id), pc.equal(table["writer_id"], writer_id)),
                pc.equal(table["experiment_id"], experiment_id),
            )
            names = pc.if_else(is_meant, own_id, names)
    return table.set_column(table.schema.get_field_index("stream_id"), table.schema.field("stream_id"), names)


def shared_names(separations: Separations, stream_id: str) -> frozenset[str]:
    """Return the ids under which rows of a stream may be stored: its own, and the one it shared."""
    return frozenset({stream_id, *(key[1] for key, own_id in separations.items() if own_id == stream_id)})
