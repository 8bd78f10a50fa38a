"""The reference pages are up to date, and the site builds without warnings."""

import sys

import pytest

from tests.docs.pages import GENERATED, ROOT
from tests.docs.reference import PAGES, REGENERATE
from tests.fixtures.programs import run_program
from tests.fixtures.requirements import needs_zensical


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_up_to_date(name: str) -> None:
    """The committed page equals the generated page."""
    path = GENERATED / name
    assert path.exists(), f"{path.name} is missing: {REGENERATE}"
    same = path.read_text("utf-8") == PAGES[name]()
    assert same, f"docs/reference/{name} is out of date: {REGENERATE}"


def test_no_stale_page_exists() -> None:
    """docs/reference has only generated pages."""
    assert sorted(path.name for path in GENERATED.iterdir()) == sorted(PAGES)


@needs_zensical
def test_the_site_builds() -> None:
    """A strict build has no warnings."""
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = run_program(*command, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
