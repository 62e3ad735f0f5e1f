"""Every picture of a page in the documents is one of the page as it is now."""

import re

import pytest

from tests.analytics.report.conftest import chromium, view  # noqa: F401 - fixtures
from tests.docs import pictures

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
AGAIN = "make the pictures anew: python -m tests.docs.pictures stores/demo"


def test_pictures_match_their_pages(demo, view, tmp_path):  # noqa: F811
    """What stands on each page now is what stood there when its picture was made, but for numbers and edges."""
    stale = {}

    def compare(name, page):
        taken_of, *shown = (pictures.WORDS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        assert taken_of == pictures.digest(name), f"{name}.png and its words differ; {AGAIN}"
        new = [each for each in pictures.words(page, pictures.NEARLY) if each not in shown]
        gone = [each for each in shown if each not in pictures.words(page, pictures.BEYOND)]
        stale[name] = [*(f"+ {each}" for each in new), *(f"- {each}" for each in gone)]

    pictures.visit(demo, view, tmp_path, compare)
    assert {path.stem for path in pictures.IMAGES.glob("*.png")} == set(stale)
    assert {name: lines for name, lines in stale.items() if lines} == {}, AGAIN


def test_figures_match_their_tables(demo):
    """A figure of the demo has the words and numbers of the file in the documents."""

    def texts(svg):
        return re.findall(rb">([^<>\n]+)</text>", svg)

    for name, data in pictures.figures(demo).items():
        shown = texts((pictures.IMAGES / f"{name}.svg").read_bytes())
        assert len(shown) > 5
        assert texts(data) == shown, AGAIN
