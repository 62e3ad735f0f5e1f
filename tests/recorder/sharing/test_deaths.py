"""A host that dies while it publishes: at every step everything is there once afterwards."""

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from lhaw_record.recorder.files.disk import Disk
from lhaw_record.recorder.files.remote import Remote
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.recorder.stores import finished, started

STEPS = ("before the upload", "after the upload", "before the journal goes")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("step", STEPS)
def test_a_death_while_publishing_doubles_and_loses_nothing(address, step, new_host):
    """Whatever the step at which a host dies: when it is back every host has every event once, and all is done.

    There is one segment of the journal, and recovering again finds nothing to do.
    """
    host, elsewhere = new_host(address), new_host(address)
    for each in ("while recording", step):
        died = host.run("tests.recorder.sharing.test_deaths", host.root, each)
        assert died.returncode == -signal.SIGKILL, died.stderr
    before = read_envelopes(host.root)
    assert len(before) >= 20
    assert len(recover(host.store())) == 1
    assert recover(host.store()) == []
    for each in (host, elsewhere, new_host(address)):
        keys = [(envelope.stream_id, envelope.sequence) for envelope in read_envelopes(each.root)]
        assert len(keys) == len(set(keys)) >= len(before)
        assert verify(each.root).findings == ()
    assert len([name for name in Remote(address).names("events") if "experiment=exp/" in name]) == 1


def _die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


async def _record_and_die(root):
    """Record a stream that is not closed."""
    async with StoreRecorder(create_store(root), "exp") as recorder:
        stream = recorder.stream("s", trial_id="s", attempt=1)
        await stream.append(*(event(index) for index in range(10) for event in (started, finished)))
        _die()


def _recover_and_die(root, step):
    """Recover a working copy, and die at a step of publishing."""
    if step == "before the upload":
        Remote._write = _die
    elif step == "after the upload":
        put = Remote.put

        def put_and_die(self, name, content):
            put(self, name, content)
            if "experiment=exp/" in name:
                _die()

        Remote.put = put_and_die
    else:
        remove = Disk.remove
        Disk.remove = lambda self, path: _die() if path.suffix == ".journal" else remove(self, path)
    recover(create_store(root))


if __name__ == "__main__":
    if sys.argv[2] == "while recording":
        anyio.run(_record_and_die, Path(sys.argv[1]))
    _recover_and_die(Path(sys.argv[1]), sys.argv[2])
