"""A power cut at any instant costs nothing that was acknowledged, and leaves nothing that recovery cannot mend."""

import os
import shutil
from pathlib import Path
from random import Random

import anyio
import pytest

from lhaw_record.recorder.files.layout import MARKER
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.sealing.compaction import compact
from lhaw_record.recorder.storage.store import Store
from tests.crash.judge import problems_after
from tests.crash.power import EVERYTHING, NOTHING, Extreme, Power, write_image
from tests.crash.tracing import Operation, TracingDisk
from tests.crash.workload import record
from tests.support.depth import IS_QUICK, at_depth

SEED = int(os.environ.get("LHAW_RECORD_CRASH_SEED", "20261121"))
IMAGES_EACH = at_depth(4, 60)
"""After each operation: the extremes, then some by chance."""
EVERY = 3 if IS_QUICK else 1
"""After which operations the power may go: every so-manieth."""
TORN_WRITES = at_depth(3, 1)
"""How many times as many images after a write: only there a commit may be torn, in more ways than all the others."""
SECOND_CUTS = at_depth(6, 25) / 100
"""The share of first cuts whose recovery is cut again."""
EXTREMES = (Extreme(NOTHING), Extreme(EVERYTHING))


def traced(root: Path, streams: int = 4) -> list[Operation]:
    """Record the whole workload and return what was done to the disk."""
    disk = TracingDisk(root)
    anyio.run(lambda: record(root, disk, disk.acknowledged, streams=streams))
    return disk.operations


def cuts(operations: list[Operation], folder: Path, seed: str, images_each: int, begin: int = 0):
    """Yield different disks that power cuts after each operation may leave: what to call it, the store, the power.

    Args:
        operations: What was done.
        folder: Where stores are made; each is removed again.
        seed: Of every choice.
        images_each: Choices after each operation, the extremes first if there is room for more; those that give a disk
            again are left out.
        begin: The first operation after which the power may go.
    """
    power, seen = Power(), set()
    for place, operation in enumerate(operations):
        power.follow(operation)
        images = images_each * (TORN_WRITES if operation.kind == "write" and images_each > 1 else 1)
        for each in range(images if place >= begin and place % EVERY == 0 else 0):
            extremes = EXTREMES if images_each > len(EXTREMES) else ()
            by_chance = Random(f"{seed}.{place}.{each}")
            image = power.image(extremes[each] if each < len(extremes) else by_chance)
            key = hash((tuple(image.items()), tuple(power.acknowledged.items())))
            if key in seen:
                continue
            seen.add(key)
            root = folder / f"cut-{place}.{each}"
            write_image(image, root)
            yield f"seed {seed}, operation {place} ({operation.kind} {operation.path}), image {each}", root, power
            shutil.rmtree(root)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("streams", "images_each", "least_cuts"),
    [
        (1, 1, 30 // EVERY),
        pytest.param(1, IMAGES_EACH, at_depth(60, 300), marks=pytest.mark.thorough),
        pytest.param(4, IMAGES_EACH, at_depth(120, 600), marks=pytest.mark.thorough),
        pytest.param(7, IMAGES_EACH // 4, 100, marks=pytest.mark.thorough),
    ],
)
def test_a_power_cut_at_any_instant_loses_nothing_acknowledged(tmp_path, streams, images_each, least_cuts):
    """Many disks, after each operation of recording, sealing, compacting and removing."""
    cases = 0
    for case, root, power in cuts(traced(tmp_path / "whole", streams), tmp_path, str(SEED), images_each):
        assert problems_after(root, power.acknowledged) == [], case
        cases += 1
    print(f"{cases} power cuts with {streams} streams, seed {SEED}")
    assert cases > least_cuts


@pytest.mark.slow
@pytest.mark.thorough
def test_a_power_cut_during_recovery_loses_nothing_either(tmp_path):
    """Disks that a first cut left, cut again after each operation of their recovery and compaction."""
    operations, cases = traced(tmp_path / "whole"), 0
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    chance = Random(SEED)
    for case, root, power in cuts(operations, tmp_path / "first", str(SEED), 1, begin=len(operations) // 4):
        if not (root / MARKER).exists() or chance.random() > SECOND_CUTS:
            continue
        disk = TracingDisk(root)
        begin = len(disk.operations)
        store = Store(root, disk)
        recover(store)
        compact(store, grace_s=0.0)
        for again, second, _ in cuts(disk.operations, tmp_path / "second", f"{SEED}.again", 1, begin):
            assert problems_after(second, power.acknowledged) == [], f"{case}, then in recovery {again}"
            cases += 1
    print(f"{cases} power cuts during recovery, seed {SEED}")
    assert cases > at_depth(40, 300)
