"""The reference pages are up to date."""

import pytest

from tests.docs.pages import GENERATED
from tests.docs.reference import PAGES, REGENERATE


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_up_to_date(name: str) -> None:
    """The committed page equals the generated page."""
    path = GENERATED / name
    assert path.exists(), f"docs/reference/{name} is missing: {REGENERATE}"
    same = path.read_text("utf-8") == PAGES[name]()
    assert same, f"docs/reference/{name} is out of date: {REGENERATE}"


def test_no_stale_page_exists() -> None:
    """docs/reference has only generated pages."""
    files = [path for path in GENERATED.rglob("*") if path.is_file()]
    assert sorted(path.relative_to(GENERATED).as_posix() for path in files) == sorted(PAGES)
