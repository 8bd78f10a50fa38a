"""The reference pages say what the program does; and the site builds without a complaint."""

import sys

import pytest

from tests.docs.pages import GENERATED, ROOT
from tests.docs.reference import ANEW, PAGES
from tests.fixtures.programs import run_program
from tests.fixtures.requirements import needs_zensical


@pytest.mark.parametrize("name", PAGES)
def test_it_is_up_to_date(name: str) -> None:
    """As it would be written now."""
    path = GENERATED / name
    assert path.exists(), f"{path.name} is missing: {ANEW}"
    same = path.read_text("utf-8") == PAGES[name]()
    assert same, f"docs/reference/{name} is out of date: {ANEW}"


def test_no_page_is_left_over() -> None:
    """What is no longer generated is no longer there."""
    assert sorted(path.name for path in GENERATED.iterdir()) == sorted(PAGES)


@needs_zensical
def test_the_site_builds() -> None:
    """Without a warning."""
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = run_program(*command, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
