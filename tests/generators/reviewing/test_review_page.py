"""The review workbench in a real browser: by keys alone; what was typed and decided survives what goes wrong."""

import socket

import pytest

from lhaw_record.generators.reviewing.web import review_extension
from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.runs.daemon.client import read_address
from tests.analytics.report.conftest import chromium, view  # noqa: F401 - fixtures
from tests.analytics.report.test_in_a_browser import CONTRASTS
from tests.cli.program import start, wait_until
from tests.generators.reviewing.test_sittings import decisions, store  # noqa: F401 - fixture
from tests.runners.runs.daemon.test_page import Served

pytestmark = pytest.mark.thorough
TEXT = "document.getElementById('{}').textContent"
SHOWN = "document.getElementById('workbench').getAttribute('aria-busy') === 'false'"


@pytest.fixture
def served(store):  # noqa: F811
    """A daemon with the workbench."""
    with Served(store, extend=review_extension) as running:
        yield running


def sit(view, url, reviewer="anna"):  # noqa: F811
    """Open a reviewer's workbench and wait for the first variant."""
    view.open(f"{url}/review/{reviewer}")
    view.wait("document.querySelector('[data-begun]')")


def press(view, *keys):  # noqa: F811
    """Press keys one after another, each when the page is ready for it."""
    for key in keys:
        view.wait(SHOWN)
        view.press(key)
    view.wait(SHOWN)


def keep_text(view):  # noqa: F811
    """Press Ctrl-Enter."""
    key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "modifiers": 2}
    view.send("Input.dispatchKeyEvent", type="keyDown", **key)
    view.send("Input.dispatchKeyEvent", type="keyUp", **key)


def write(view, text):  # noqa: F811
    """Type a text in place of the selected one of the editor."""
    view.value("document.getElementById('text').select()")
    view.send("Input.insertText", text=text)


def standing(view):  # noqa: F811
    """What the page says about how far the reviewer is."""
    return view.value(TEXT.format("standing"))


def test_a_sitting_by_keys_alone(view, served, store):  # noqa: F811
    """Give a name, accept, note and reject, edit, put off, come back, and stop; nothing comes from elsewhere."""
    view.open(f"{served.url}/review")
    view.wait("document.activeElement.id === 'reviewer'")  # a browser gives the focus after the scripts have run
    view.send("Input.insertText", text="anna")
    view.press("Enter")
    view.wait("document.querySelector('[data-begun]')")
    assert "1 of 6 variants" in standing(view)
    press(view, "a")
    assert "2 of 6 variants;  1 decided" in standing(view)
    press(view, "n")
    view.send("Input.insertText", text="odd, an anecdote")
    view.press("Enter")
    view.wait("!document.getElementById('noting').open")
    assert view.value(TEXT.format("note")) == "Note: odd, an anecdote"
    press(view, "r")
    view.press("1")
    view.wait("document.getElementById('standing').textContent.includes('2 decided')")
    press(view, "e")
    write(view, "Please do it well.")
    keep_text(view)
    view.wait("document.getElementById('reasons').open")
    view.press("3")
    view.wait("document.getElementById('standing').textContent.includes('3 decided')")
    press(view, "s", "b", "b")
    assert view.value(TEXT.format("own")).startswith("You edited this variant: collateral.")
    press(view, "s", "a", "a", "a")
    assert view.value(TEXT.format("task")) == "Everything is decided"
    press(view, "q")
    view.wait("location.pathname === '/review'")
    assert sorted(row[1:4] for row in decisions(store) if row[2]) == [
        ("edited", "collateral", None),
        ("rejected", "unnatural", "odd, an anecdote"),
    ]
    assert [row[1] for row in decisions(store)].count("accepted") == 4
    assert {address.split("/")[2] for address in view.requests()} == {served.url.split("/")[2]}
    assert view.complaints() == []


def test_an_edit_that_the_gate_refuses_is_kept_as_typed(view, served, store):  # noqa: F811
    """Its findings stand beside the text and in the question; the way back leads to the text, also after a reload."""
    sit(view, served.url)
    text = view.value("sitting.shown.pieces.filter((each) => each.kind !== 'added').map((each) => each.text).join('')")
    press(view, "e")
    write(view, f"{text} Hurry!")
    view.wait("document.querySelector('#checked .finding')")
    keep_text(view)
    view.wait("document.getElementById('reasons').open")
    assert "Keep it anyway?" in view.value(TEXT.format("why"))
    assert view.value("document.querySelectorAll('#why-not li').length") > 0
    view.press("Escape")
    view.wait("!document.getElementById('reasons').open")
    assert view.value("document.activeElement.id") == "text"
    view.press("Escape")
    assert "Go on editing" in view.value(TEXT.format("keys"))
    sit(view, served.url)
    press(view, "e")
    assert view.value("document.getElementById('text').value") == f"{text} Hurry!"
    write(view, text)
    keep_text(view)
    view.wait("document.getElementById('reasons').open")
    view.press("1")
    view.wait("!document.getElementById('problem').hidden")
    assert "is the full one" in view.value(TEXT.format("problem"))
    assert view.value("document.getElementById('text').value") == text
    assert decisions(store) == []


def test_two_tabs(view, chromium, served, store):  # noqa: F811
    """A tab that does not know the other's decision is told it, with what was typed, and may then replace it."""
    sit(view, served.url)
    with chromium.page() as other:
        sit(other, served.url)
        press(other, "e")
        write(other, "Please do it well.")
        press(view, "a")
        keep_text(other)
        other.wait("document.getElementById('reasons').open")
        other.press("1")
        other.wait("document.getElementById('problem').textContent.startsWith('you have decided')")
        assert other.value(TEXT.format("own")).startswith("You accepted this variant")
        assert other.value("document.getElementById('text').value") == "Please do it well."
        assert [row[1] for row in decisions(store)] == ["accepted"]
        keep_text(other)
        other.wait("document.getElementById('reasons').open")
        other.press("1")
        other.wait("document.getElementById('standing').textContent.includes('2 of 6')")
    assert [row[1] for row in decisions(store)] == ["edited"]


def test_a_daemon_that_vanishes(view, store):  # noqa: F811
    """The decision and the note are kept, said to be, and recorded once when a daemon is there again."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    daemon = start("serve", "--store", store, "--port", port)
    wait_until(lambda: read_address(store) is not None, "the daemon said where it is")
    sit(view, url)
    press(view, "n")
    view.send("Input.insertText", text="good")
    view.press("Enter")
    view.wait("!document.getElementById('noting').open")
    view.wait("comparisons.size === 2")
    daemon.kill()
    daemon.communicate()
    view.press("a")
    view.wait("document.getElementById('problem').textContent.includes('does not answer')")
    assert "1 of 6" in standing(view)
    daemon = start("serve", "--store", store, "--port", port)
    view.wait("document.getElementById('standing').textContent.includes('1 decided')")
    assert view.value("document.getElementById('problem').hidden")
    daemon.terminate()
    daemon.communicate()
    assert [row[:4] for row in decisions(store)] == [("anna", "accepted", None, "good")]


def test_a_sitting_that_is_open_elsewhere(view, served, store):  # noqa: F811
    """The page says where, and opens when the other one has ended."""
    with Store(store).hold_experiment("review-anna"):
        sit(view, served.url)
        assert "anna has a session open elsewhere" in view.value(TEXT.format("problem"))
    view.press("Enter")
    view.wait("document.getElementById('standing').textContent.includes('1 of 6')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_is_readable_everywhere(view, served, scheme, width):  # noqa: F811
    """In both colour schemes every text has contrast; on a phone nothing stands beside the screen."""
    view.scheme(scheme)
    view.size(width, 844)
    sit(view, served.url)
    for key in "", "e":
        if key:
            press(view, key)
        assert min(view.value(CONTRASTS).values()) >= 4.5
        assert view.value("document.documentElement.scrollWidth <= innerWidth")
        assert view.value("getComputedStyle(document.querySelector('td.variant')).display !== 'none'") == (
            width == 1280 and not key
        )


def test_hostile_text_stays_text(view, served):  # noqa: F811
    """A prompt that is markup is shown as it is."""
    sit(view, served.url)
    attack = "<img src=x onerror=alert(1)> <script>alert(1)</script> \u202edo it"
    press(view, "e")
    write(view, attack)
    view.wait("document.getElementById('prompts').textContent.includes('onerror')")
    assert view.value("document.querySelectorAll('#workbench img, #workbench script').length") == 0
    assert "\u202e" not in view.value(TEXT.format("prompts"))
    assert view.complaints() == []
