"""Archives and folders by nobody's friend: no name leads elsewhere, and what unpacks without end stops."""

import contextlib
import gzip
import io
import json
import zipfile

import pyarrow as pa
import pytest

from lhaw_record.runners.imports import FORMATS
from lhaw_record.runners.imports.foreign_trial import ImportFailed, SourceFile
from lhaw_record.runners.imports.formats.inspect_log import Archive
from lhaw_record.runners.imports.source_files import decode_json, decode_json_or_lines, read_instances, read_sources
from tests.runners.imports.files import eval_log, imported, source, write

ZEROS = bytes(3 << 20)
SLIPS = ["../../escaped.json", "/tmp/escaped.json", "a/../../escaped.json", "C:\\escaped.json", "samples/\0.json"]


def archive_of(**entries):
    """An archive with these files, deflated."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return SourceFile(name="log.eval", folder="logs", content=buffer.getvalue(), sha256="0" * 64)


@pytest.fixture
def at_most_2_mb(monkeypatch):
    """The limit of what a file may unpack to."""
    monkeypatch.setenv("LHAW_RECORD_MAX_UNPACKED_MB", "2")


@pytest.mark.usefixtures("at_most_2_mb")
def test_a_zip_bomb_is_refused():
    """An entry that unpacks to more than the limit is refused by the variable that raises it; so are many together."""
    with pytest.raises(ImportFailed, match=r"log\.eval unpacks to more than 2 MB.*LHAW_RECORD_MAX_UNPACKED_MB"):
        Archive(archive_of(header=ZEROS)).load("header")
    part = json.dumps("x" * (1 << 20)).encode()
    opened = Archive(archive_of(a=part, b=part, c=part))
    opened.load("a")
    with pytest.raises(ImportFailed, match="unpacks to more than 2 MB"):
        opened.load("b")


@pytest.mark.usefixtures("at_most_2_mb")
def test_a_gzip_bomb_is_refused(tmp_path):
    """A file of instances that unpacks to more than the limit is refused."""
    path = tmp_path / "instances.jsonl.gz"
    path.write_bytes(gzip.compress(ZEROS))
    with pytest.raises(ImportFailed, match="LHAW_RECORD_MAX_UNPACKED_MB"):
        read_instances(path)


def test_names_that_lead_elsewhere_write_nothing(tmp_path, monkeypatch):
    """The entries of an archive are read in memory, whatever they are called."""
    monkeypatch.chdir(tmp_path)
    opened = Archive(archive_of(**dict.fromkeys(SLIPS, b"{}")))
    assert [opened.load(name) for name in opened.names] == [{}] * len(SLIPS)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_leads_to_no_file_outside_of_it(tmp_path):
    """A symbolic link out of an imported folder is named, and not followed."""
    secret = tmp_path / "secret.json"
    secret.write_text('{"key": "of the host"}')
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "eval_1.json").symlink_to(secret)
    with pytest.raises(ImportFailed, match=r"eval_1\.json is a symbolic link out of"):
        read_sources(folder, ["eval_*.json"])


def test_a_device_is_no_file():
    """A file without end is refused before it is read."""
    from pathlib import Path

    with pytest.raises(ImportFailed, match="/dev/zero is neither a file"):
        read_sources(Path("/dev/zero"), ["*"])


@pytest.mark.parametrize("content", [b"[" * 100_000, b"1" * 100_000, b'{"a":1,"a":2}', b'"\\ud800', b"\xff\xfe", b"\0"])
def test_strange_json_is_refused_by_name(content):
    """Nesting without end, huge numbers, keys that stand twice, half characters and NUL end in a sentence of ours."""
    with pytest.raises(ImportFailed, match=r"strange\.json"):
        decode_json(SourceFile(name="strange.json", folder="", content=content, sha256="0" * 64))


def test_getting_a_file_again_is_no_remedy_for_nesting():
    """A whole file that nests too deep stays so; a torn one does not."""
    for content, remedy in ((b"[" * 100_000 + b"]" * 100_000, "leave it out"), (b'{"a": 1', "get the file again")):
        for name in ("a.json", "a.jsonl"):
            with pytest.raises(ImportFailed, match=remedy):
                decode_json_or_lines(SourceFile(name=name, folder="", content=content, sha256="0" * 64))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("depth", [400, 900, 50_000])
@pytest.mark.parametrize("form", sorted(FORMATS))
def test_deep_nesting_is_refused_or_left_out(form, depth, tmp_path):
    """No format ends in a traceback, wherever the depth is."""
    call = {"id": "a", "function": {"name": "f", "arguments": "DEEP"}}
    chat = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "DEEP", "tool_calls": [call]}]
    event = {"action": "run", "args": "DEEP", "source": "agent", "id": 1}
    names = ("steps", "agent", "task_name", "agent_info", "checkpoints", "variant_id", "condition", "task_success")
    whole = {"messages": chat, "info": {}, "history": [event], **dict.fromkeys(names, "DEEP")}
    names = {"atif": "a.trajectory.json", "harbor-job": "result.json", "mini-swe-agent": "a.traj.json"}
    for number, content in enumerate((whole, chat, "DEEP", [event])):
        text = json.dumps(content).replace('"DEEP"', "[" * depth + "]" * depth)
        path = write(tmp_path / str(number) / names.get(form, "a.json"), text)
        if form == "inspect-eval":
            path = write(
                path,
                archive_of(**{"header.json": '{"eval": {"model": "m", "task": "t"}}', "samples/a.json": text}).content,
            )
        with contextlib.suppress(ImportFailed):
            imported(form, path, tmp_path / f"s{number}")


def test_an_entry_that_claims_to_be_large_takes_no_memory(monkeypatch):
    """What a zstd entry unpacks to is read in pieces, so that the limit, not the claim, decides what is allocated."""
    content = eval_log({"a.json": {"x": "y" * 3_000_000}})
    asked = []
    opened = pa.CompressedInputStream

    class Watched:
        def __init__(self, *given):
            self._stream = opened(*given)

        def read(self, size):
            asked.append(size)
            return self._stream.read(size)

    monkeypatch.setattr(pa, "CompressedInputStream", Watched)
    Archive(source(content, "l.eval")).load("a.json")
    assert max(asked) <= 1 << 20
