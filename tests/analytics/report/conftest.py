"""One browser for each worker and one page of each kind for all tests of the report."""

from importlib import import_module

import msgspec
import pytest

from lhaw_record.analytics.figures import FIGURES
from lhaw_record.analytics.report import Page
from tests.analytics.report import pages
from tests.analytics.report.browser import browser
from tests.support.depth import IS_QUICK
from tests.support.needs import require
from tests.support.once import made_once


def _made_once(factory, name, make):
    """A page with all its figures; for a quick look with every fifth, which take half of its time."""
    building = import_module("lhaw_record.analytics.report.build")  # the package has a function of that name

    def write(folder):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(building, "FIGURES", FIGURES[:: 5 if IS_QUICK else 1])
            (folder / "page.json").write_bytes(msgspec.json.encode(make()))

    folder = made_once(factory, f"page-{name}", write)
    return msgspec.json.decode((folder / "page.json").read_bytes(), type=Page)


@pytest.fixture(scope="session")
def busy_page(tmp_path_factory):
    """The page about the busy store."""
    return _made_once(tmp_path_factory, "busy", lambda: pages.page_about(pages.busy_store().snapshot()))


@pytest.fixture(scope="session")
def hostile_page(tmp_path_factory):
    """The page about the hostile store."""
    store = pages.hostile_store
    return _made_once(tmp_path_factory, "hostile", lambda: pages.page_about(store().snapshot(), name=pages.ATTACK))


@pytest.fixture(scope="session")
def mixed_page(tmp_path_factory):
    """The page about a store with two benchmarks."""
    return _made_once(tmp_path_factory, "mixed", lambda: pages.page_about(pages.mixed_store().snapshot()))


@pytest.fixture(scope="session")
def busy_address(busy_page, tmp_path_factory):
    """Where the page about the busy store lies."""
    return pages.written(busy_page, tmp_path_factory.mktemp("busy"))


@pytest.fixture(scope="session")
def hostile_address(hostile_page, tmp_path_factory):
    """Where the page about the hostile store lies."""
    return pages.written(hostile_page, tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="session")
def mixed_address(mixed_page, tmp_path_factory):
    """Where the page about a store with two benchmarks lies."""
    return pages.written(mixed_page, tmp_path_factory.mktemp("mixed"))


@pytest.fixture(scope="session")
def chromium():
    """A browser without a window."""
    require("chromium")
    with browser() as running:
        yield running


@pytest.fixture
def view(chromium):
    """A page of its own for each test."""
    with chromium.page() as opened:
        opened.size(1280, 900)
        yield opened
