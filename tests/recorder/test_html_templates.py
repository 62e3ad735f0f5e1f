"""Pages from templates: what comes from outside is text, once escaped and printable."""

import hashlib
import tomllib

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from lhaw_record.recorder.html_templates import VIEWER, render
from lhaw_record.recorder.resources import data_path


def problem(message):
    """The paragraph with the message of a page about a problem."""
    return (
        render("page/problem.html", title="<t>", message=message)
        .partition("<h2>Not shown</h2>\n")[2]
        .partition("\n")[0]
    )


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ('<b title="x">&', "&lt;b title=&#34;x&#34;&gt;&amp;"),
        ("{{ title }} {% raw %}", "{{ title }} {% raw %}"),
        ("a\x00\ud800b\u202ec", "a\ufffd\ufffdb\ufffdc"),
        (Markup("<i>&amp;</i>"), "<i>&amp;</i>"),
        (None, ""),
        (3, "3"),
    ],
)
def test_a_value_is_escaped_once(given, shown):
    """Texts are escaped, markup is not, template syntax stays text, and forbidden characters are replaced."""
    assert problem(given) == f"<p>{shown}</p>"


def test_a_missing_value_is_an_error():
    """A template never shows an empty place for a value that nobody gave."""
    with pytest.raises(UndefinedError, match="message"):
        render("page/problem.html", title="t")


def test_libraries_are_as_published():
    """Every bundled file of a library has the noted digest, and its licence lies beside it."""
    folder = data_path("page", "static", "vendor")
    noted = tomllib.loads((folder / "libraries.toml").read_text(encoding="utf-8"))
    files = {name: digest for library in noted.values() for name, digest in library["files"].items()}
    assert {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files} == files
    assert {path.name for path in folder.glob("*.js")} == set(files)
    assert {f"vendor/{name}" for name in files} <= set(VIEWER)
    assert len(list(folder.glob("*.LICENSE"))) == len(noted)
