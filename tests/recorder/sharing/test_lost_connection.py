"""A connection that is lost: for a while, in the middle of an upload, for good; and a directory that is not mounted."""

import threading
import time

import pytest

from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.files.remote import Remote
from lhaw_record.recorder.reading.reader import read_envelopes
from tests.cli.program import wait_until
from tests.recorder.sharing.conftest import s3_address
from tests.recorder.sharing.failing import FailingWay
from tests.recorder.sharing.hosts import ended_well, lines_until

LARGE = bytes(range(256)) * 12_000


@pytest.mark.thorough
def test_a_run_waits_for_a_lost_connection(cut_address, proxy, new_host):
    """While the connection is lost, events are recorded on and decisions wait; when it is back, the run goes on."""
    host = new_host(cut_address)
    writer = host.start("tests.recorder.sharing.writer", cut_address, "s", 4, 30)
    lines_until(writer, "ready")
    proxy.cut()
    before = lines_until(writer, "ack s3 60")  # the last event before the decision
    assert not [line for line in before if line.startswith("end")]
    assert any("trying again" in line for line in writer.stderr)
    proxy.restore()
    after, errors = writer.communicate(timeout=600)
    assert writer.returncode == 0, errors
    assert sorted(line for line in after.splitlines() if line.startswith("end")) == [f"end s{n} 61" for n in range(4)]


@pytest.mark.thorough
def test_an_upload_that_breaks_in_the_middle_leaves_nothing(bucket, cut_address, proxy):
    """A connection that breaks after part of an upload leaves no object; the upload is tried again and is whole."""
    there, through = Remote(bucket), Remote(cut_address, patience_s=20.0)
    through.make()
    seen = []

    def sleep(seconds):
        seen.append(there.has("events/large"))
        time.sleep(seconds)

    through._sleep = sleep
    proxy.cut_after(len(LARGE) // 2)
    through.put("events/large", LARGE)
    assert proxy.cuts == 1
    assert seen
    assert not any(seen)
    assert there.get("events/large") == LARGE


@pytest.mark.thorough
def test_a_server_that_fails_is_asked_again(bucket, s3_port, tmp_path):
    """Each request is refused once, and once done without an answer: in the end all is there once and whole."""
    way = FailingWay(s3_port)
    through = Remote(s3_address(way.server_port, tmp_path.name), sleep=lambda _: None)
    try:
        through.make()
        for number in range(3):
            through.put(f"events/{number}", bytes([number]) * 1000)
        assert through.names("events") == {f"events/{number}" for number in range(3)}
        assert through.get("events/2") == b"\2" * 1000
    finally:
        way.shutdown()
        way.server_close()
    there = Remote(bucket)
    assert there.is_made()
    assert [there.get(f"events/{number}") for number in range(3)] == [bytes([number]) * 1000 for number in range(3)]
    assert way.answers[503] > 3
    assert way.answers[500] > 3


@pytest.mark.thorough
def test_a_run_that_cannot_publish_stops_and_loses_nothing(bucket, cut_address, proxy, new_host):
    """When patience is over the run says where its events are and what to do; doing it publishes all of them."""
    host, elsewhere = new_host(cut_address), new_host(bucket)
    writer = host.start("tests.recorder.sharing.writer", cut_address, "s", 2, 10, patience_s=1.0)
    lines_until(writer, "ready")
    proxy.cut()
    _, errors = writer.communicate(timeout=600)
    assert writer.returncode != 0
    assert "could not be published" in errors
    assert "log recover" in errors
    assert read_envelopes(elsewhere.root) == []
    proxy.restore()
    assert host.lhaw_record("log", "recover", cut_address).returncode == 0
    assert len(read_envelopes(elsewhere.root)) == 2 * 21


def test_a_reader_without_a_connection_says_so(cut_address, proxy, new_host):
    """A reader that cannot reach the store fails with the address and the next step, and shows no old data instead."""
    host = new_host(cut_address)
    store = host.store()
    proxy.cut()
    remote = Remote(cut_address, patience_s=0.5)
    with pytest.raises(StoreError, match=r"cannot list .*s3://team.*try again when the connection is back"):
        remote.names("events")
    proxy.restore()
    assert read_envelopes(store.root) == []


def test_what_no_waiting_cures_fails_at_once(s3_port):
    """A bucket that does not exist is an error at once, not after minutes of trying."""
    address = f"s3://nowhere/x?endpoint_override=127.0.0.1:{s3_port}&scheme=http&region=us-east-1"
    waited = []
    with pytest.raises(StoreError, match="NO_SUCH_BUCKET"):
        Remote(address, sleep=waited.append).make()
    assert waited == []


@pytest.mark.thorough
def test_a_directory_that_is_not_mounted_is_not_filled(tmp_path, new_host):
    """Where the shared directory is gone, nothing is written to what is there instead, and the run fails."""
    mounted, away = tmp_path / "mounted", tmp_path / "away"
    host = new_host(f"shared:{mounted}")
    ended_well([host.start("tests.recorder.sharing.writer", host.address, "s", 1, 2)])
    writer = host.start("tests.recorder.sharing.writer", host.address, "t", 1, 2, "wait")
    lines_until(writer, "end")
    before = read_envelopes(host.root)
    mounted.rename(away)
    mounted.mkdir()
    failed = host.run("tests.recorder.sharing.writer", host.address, "u", 1, 2)
    assert failed.returncode != 0
    assert "is it mounted?" in failed.stderr
    assert list(mounted.iterdir()) == []
    with pytest.raises(StoreError, match="is it mounted"):
        read_envelopes(host.root)
    mounted.rmdir()
    away.rename(mounted)
    assert read_envelopes(host.root) == before


@pytest.mark.thorough
def test_a_place_that_was_made_anew_is_not_taken_for_the_old_one(address, tmp_path, new_host):
    """A working copy that knew another store at its address refuses, instead of mixing the two."""
    host = new_host(address)
    ended_well([host.start("tests.recorder.sharing.writer", address, "s", 1, 2)])
    assert read_envelopes(host.root)
    remote = Remote(address)
    for name in remote.names(""):
        remote.remove(name)
    Remote(address).make()
    with pytest.raises(StoreError, match="holds another store"):
        read_envelopes(host.root)


@pytest.mark.parametrize("content", [b"", b"x", LARGE])
def test_what_was_put_is_what_is_got(address, content):
    """A file comes back byte for byte; writing a name again changes nothing; removing twice is removing once."""
    remote = Remote(address)
    remote.make()
    remote.put("blobs/ab/abcd", content)
    remote.put("blobs/ab/abcd", b"other")
    assert remote.get("blobs/ab/abcd") == content
    assert remote.names("blobs") == {"blobs/ab/abcd"}
    remote.remove("blobs/ab/abcd")
    remote.remove("blobs/ab/abcd")
    assert not remote.has("blobs/ab/abcd")
    with pytest.raises(FileNotFoundError):
        remote.get("blobs/ab/abcd")


def test_nobody_sees_part_of_a_file(address):
    """While a file is written again and again, whoever finds its name finds it whole."""
    remote, other = Remote(address), Remote(address)
    remote.make()
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            remote.put(f"events/{number}", LARGE[:300_000])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        wait_until(lambda: len(other.names("events")) >= 3, "files were written")
        for _ in range(20):
            newest = max(other.names("events"), key=lambda name: int(name.rpartition("/")[2]))
            assert len(other.get(newest)) == 300_000
    finally:
        stop.set()
        thread.join()
