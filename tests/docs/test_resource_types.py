"""The table of resource types in `docs/arm.md`."""

import pytest

from fairwarning.arm.registry import TYPES
from tests.docs.pages import ROOT


@pytest.mark.spec("C8")
def test_the_table_of_types_is_that_of_the_registry() -> None:
    """It lists what acts, with what the service does with it; all else is only stored."""
    text = (ROOT / "docs" / "arm.md").read_text()
    table = text.partition("<!-- types")[2].partition("<!-- end of types")[0].splitlines()[3:]
    expected = [f"| `{kind.name}` | {kind.purpose} |" for kind in TYPES]
    assert table == [*expected, "| any other `Microsoft.*` type | is only stored |"]
