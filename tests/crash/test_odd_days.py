"""Clocks that jump, locks that a reboot left, bits that flip: nothing acknowledged is lost, nothing wrong believed."""

import itertools
from collections import Counter

import anyio

from lhaw_record.recorder.errors import DamagedStore
from lhaw_record.recorder.files.disk import Disk
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.journal import read_journal
from lhaw_record.recorder.storage.journal_format import scan
from lhaw_record.recorder.writing.recorder import Clock
from tests.crash.judge import problems_after
from tests.crash.tracing import TracingDisk
from tests.crash.workload import EXPERIMENT, record


def test_a_clock_that_jumps_backwards_changes_no_order(tmp_path):
    """Wall time falls by a year with every event, and the times of the files lie in the future: order is by number."""
    told = []
    years = itertools.count(40)
    clock = Clock(wall_us=lambda: (60 - next(years) % 60) * 31_536_000_000_000)
    anyio.run(lambda: record(tmp_path / "store", Disk(), told.append, clock=clock))
    assert problems_after(tmp_path / "store", Counter(told)) == []


def test_locks_that_a_reboot_left_hold_nobody(tmp_path):
    """Lock files name processes that no longer are, or that are somebody else now: the kernel knows that none holds."""
    store = create_store(tmp_path / "store")
    for name in (f"{EXPERIMENT}.lock", ".compaction", ".recovery"):
        (store.locks_dir / name).write_text("process 1 on this-host since 2026-01-01T00:00:00Z\n")
    told = []
    with store.hold_experiment(EXPERIMENT):
        anyio.run(lambda: record(store.root, Disk(), told.append))
    assert problems_after(store.root, Counter(told)) == []
    with store.try_to_hold("compaction") as is_held:
        assert is_held


def test_a_flipped_bit_in_a_journal_is_damage_or_costs_the_last_commit(tmp_path):
    """For every byte: reading stops with the file named, or what is read is right and lacks the last commit at most.

    The last commit of a journal without a footer is the one place where damage looks like a torn append.
    """
    disk = TracingDisk(tmp_path / "store")
    anyio.run(lambda: record(tmp_path / "store", disk, disk.acknowledged, streams=2, appends=4))
    commits = [
        operation for operation in disk.operations if operation.kind == "write" and operation.file == _first(disk)
    ]
    data = b"".join(operation.data for operation in commits[:-1])  # without the footer
    path = tmp_path / "w0123456789ab-000001.journal"
    whole = read_journal(path, data).payloads
    stopped = shortened = 0
    for place in range(len(data)):
        for bit in (0x01, 0x80):
            flipped = data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]
            try:
                content = read_journal(path, flipped)
            except DamagedStore as error:
                stopped += str(path) in str(error)
                continue
            assert place >= commits[-2].offset
            assert content.payloads == whole[: len(content.payloads)]
            assert content.tail.torn_bytes == len(commits[-2].data)
            shortened += 1
    assert shortened > 0
    assert stopped + shortened == 2 * len(data)


def _first(disk: TracingDisk) -> int:
    """The file that the first journal is."""
    return next(each.file for each in disk.operations if each.kind == "create" and each.path.startswith("journal/"))


def test_old_blocks_after_a_power_cut_are_no_records(tmp_path):
    """A journal's tail shows what another journal had on those blocks: whole commits, but not of this journal."""
    disk = TracingDisk(tmp_path / "store")
    anyio.run(lambda: record(tmp_path / "store", disk, disk.acknowledged, streams=1, appends=60))
    journals = [each.file for each in disk.operations if each.kind == "create" and each.path.startswith("journal/")]
    mine, stale = (
        b"".join(each.data for each in disk.operations if each.kind == "write" and each.file == journal)
        for journal in (journals[0], journals[1])
    )
    path = tmp_path / "w0123456789ab-000001.journal"
    cut = scan(mine)[0][3].end
    content = read_journal(path, mine[:cut] + stale[cut:])
    assert content.payloads == read_journal(path, mine[:cut]).payloads
    assert content.tail.torn_bytes == len(stale) - cut
