"""Pages from templates: what comes from outside is text, once escaped and printable."""

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from lhaw_record.recorder.html_templates import render


def problem(message):
    """The paragraph with the message of a page about a problem."""
    return (
        render("daemon/problem.html", title="<t>", message=message)
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
        render("daemon/problem.html", title="t")
