"""The numbers of the contract."""

import re

from fairwarning.core import limits
from tests.fixtures.programs import ROOT


def test_the_published_limits_hold() -> None:
    """Each limit has the value that its line in the reference says."""
    page = (ROOT / "docs/reference/settings.md").read_text("utf-8")
    table = page.partition("core/limits.py")[2]
    rows = re.findall(r"^\| ([a-z ]+) \| (-?[\d,]+)", table, re.MULTILINE)
    published = {
        name.upper().replace(" ", "_"): int(value.replace(",", "")) for name, value in rows
    }
    assert published == {name: value for name, value in vars(limits).items() if name.isupper()}
