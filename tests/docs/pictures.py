"""Make the pictures of the report in docs/images anew: python -m tests.docs.pictures STORE (of the demo)."""

import sys
import tempfile
from pathlib import Path

from lhaw_record.analytics.report import build
from tests.analytics.report.browser import Page, browser

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
GAIN = "[...document.querySelectorAll('.decides')].find((each) => each.dataset.cell.includes('_gain'))"
PICTURES = {
    "report-top": ("", "true"),
    "report-beside": (f"{GAIN}.click()", "document.querySelector('.columns .event.current')"),
    "report-trial": ("state.set({ beside: '' })", "document.querySelector('.outline + div .event.current')"),
}
"""For each picture what is done on the page before it, and what is then true."""


def take(page: Page) -> None:
    """Take all pictures of an open report, in order."""
    page.size(1280, 900)
    for name, (action, is_done) in PICTURES.items():
        page.value(action)
        page.wait(is_done)
        page.screenshot(IMAGES / f"{name}.png")


def main(store: Path) -> None:
    """Build the report of a store and take its pictures."""
    with tempfile.TemporaryDirectory() as folder, browser() as running, running.page() as page:
        path = Path(folder) / "report.html"
        path.write_text(build(store).html, encoding="utf-8")
        page.open(path.as_uri())
        take(page)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
