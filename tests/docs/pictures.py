"""Make the pictures of the pages in docs/images anew, with their words in tests/docs/pictures.

python -m tests.docs.pictures STORE (of the demo)
"""

import calendar
import contextlib
import hashlib
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from lhaw_record.analytics.figures import draw, to_bytes
from lhaw_record.analytics.report import build
from lhaw_record.analytics.views.store import open as open_store
from lhaw_record.generators.reviewing.web import review_extension
from tests.analytics.report.browser import Page, browser
from tests.runners.agents.programs.rigs import described, scripted
from tests.runners.runs.daemon.test_page import Served, submit

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
WORDS = Path(__file__).parent / "pictures"
FIGURES = ("success", "voi")
WIDTH, HEIGHT = 1280, 900
NEARLY, BEYOND = 0.8 * HEIGHT, 1.25 * HEIGHT
"""Another browser has other fonts: what is in view is compared up to these heights, pixels."""
GAIN = "[...document.querySelectorAll('.decides')].find((each) => each.dataset.cell.includes('_gain'))"
IN_VIEW = """((height) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = new Range(), found = [];
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    range.selectNodeContents(node);
    const { top, bottom, left, width } = range.getBoundingClientRect();
    if (bottom > 0 && top < height && left < innerWidth && width && node.parentElement.checkVisibility()
      && !node.parentElement.closest("pre")) found.push(node.data);
  }
  return found;
})"""
NUMBER = re.compile(rf"\b(?=\w*\d)[0-9a-f]{{6,}}\b|\d[\d.,]*|\b(?:{'|'.join(calendar.month_name[1:])})\b")
"""Numbers, dates and ids."""
Taken = Callable[[str, Page], object]


def words(page: Page, height: float = HEIGHT) -> list[str]:
    """Return the texts that are in view, in order, without their numbers and ids."""
    texts = [" ".join(NUMBER.sub("#", each).split()) for each in page.value(f"{IN_VIEW}({height})")]
    return [each for each in texts if each.strip("# ")]


def digest(name: str) -> str:
    """Return the SHA-256 of a picture."""
    return hashlib.sha256((IMAGES / f"{name}.png").read_bytes()).hexdigest()


def visit(store: Path, page: Page, folder: Path, take: Taken) -> None:
    """Open what each picture shows, and take it."""
    page.size(WIDTH, HEIGHT)
    path = folder / "report.html"
    path.write_text(build(store).html, encoding="utf-8")
    page.open(path.as_uri())
    take("report-top", page)
    page.value(f"{GAIN}.click()")
    page.wait("document.querySelector('.columns .event.current')")
    take("report-beside", page)
    page.value("state.set({ beside: '' })")
    page.wait("document.querySelector('.outline + div .event.current')")
    take("report-trial", page)
    with contextlib.chdir(folder):
        shutil.copytree(store, "stores/desk")
        with Served(Path("stores/desk"), extend=review_extension) as served:
            page.open(f"{served.url}/review/anna")
            page.wait("document.querySelector('[data-begun]')")
            take("review", page)
        with running(folder) as served:
            submit(page, served, SUBMISSION | {"config_toml": (folder / "demo.toml").read_text()})
            page.open(f"{served.url}/experiments/demo")
            page.wait(
                "document.querySelector('#live tbody') && document.getElementById('connection').textContent === 'live'"
            )
            counts = served.daemon.counts("demo")
            agents = ("balanced", "over_clarifier")
            conditions = ("full", "underspecified", "ask_user", *(f"inject_{each}" for each in (10, 30, 50, 70, 90)))
            counts.planned = Counter({(agent, each): 21 for agent in agents for each in conditions})
            counts.finished = Counter({(agent, each): 21 for agent in agents for each in conditions[:2]})
            counts.successes = Counter({(agent, "full"): 21 for agent in agents})
            page.value("refresh()")
            page.wait("document.getElementById('cells').textContent.includes('21 of 21')")
            take("daemon", page)


SUBMISSION = {"path": "/home/anna/study/demo.toml", "by": "anna"}


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Served]:
    """Serve a daemon; the trials of the experiment file ``demo.toml`` wait while it is open."""
    end = folder / "end"
    source = f"while not os.path.exists({str(end)!r}): time.sleep(0.05)\nwork(1)\n"
    agent = {"name": "balanced"}
    text = described(scripted(folder, source), name="demo", conditions=("full", "underspecified"), agent=agent)
    (folder / "demo.toml").write_text(text)
    with Served(Path("stores/team")) as served:
        try:
            yield served
        finally:
            end.touch()


def figures(store: Path) -> dict[str, bytes]:
    """Return the figures that pages show."""
    with open_store(store) as connection:
        return {name: to_bytes(draw(connection, name), "svg") for name in FIGURES}


def main(store: Path) -> None:
    """Take all pictures, and write what is to be read in each."""

    def take(name: str, page: Page) -> None:
        page.screenshot(IMAGES / f"{name}.png")
        (WORDS / f"{name}.txt").write_text("\n".join([digest(name), *words(page), ""]), encoding="utf-8")

    for name, data in figures(store).items():
        (IMAGES / f"{name}.svg").write_bytes(data)
    WORDS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browser() as running, running.page() as page:
        visit(store.resolve(), page, Path(folder), take)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
