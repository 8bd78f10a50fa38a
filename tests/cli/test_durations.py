"""Parsing and formatting of durations."""

import click
import pytest

from fairwarning.cli.parameters.parameter_types import DURATION, NOTICE, WHOLE_SECONDS
from fairwarning.core.times import spoken


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("0.5", 0.5),
        ("90s", 90),
        ("15m", 900),
        ("2h", 7200),
        ("1d", 86400),
        ("1h30m", 5400),
        ("PT15M", 900),
        ("pt1h30m", 5400),
        ("P1DT1S", 86401),
    ],
)
def test_valid_durations(text: str, seconds: float) -> None:
    """A duration is seconds, amounts with units, or ISO 8601."""
    assert DURATION(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "15 m", "-5", "15x", "PT", "1e3", "inf", "15m5", "٣"])
def test_invalid_durations(text: str) -> None:
    """The error lists the allowed formats."""
    with pytest.raises(click.BadParameter, match="write 90, 90s, 15m"):
        DURATION(text)


def test_whole_seconds_and_notices() -> None:
    """A fraction is refused where whole seconds are needed; `none` is no notice."""
    assert WHOLE_SECONDS("1m") == 60
    with pytest.raises(click.BadParameter, match="whole number"):
        WHOLE_SECONDS("0.5")
    assert [NOTICE(text) for text in ("5m", "PT5M", "300", "none", "None")] == [
        *("PT5M", "PT5M", "PT5M", "", ""),
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((-1, "0 s"), (0.4, "0.4 s"), (3.2, "3.2 s"), (4.0, "4 s"), (900, "15 min")),
        *((60, "1 min"), (61, "1 min 1 s"), (3600, "1 h"), (86400, "1 d"), (93784, "1 d 2 h")),
    ],
)
def test_formatted_durations(seconds: float, text: str) -> None:
    """A formatted duration has at most two units."""
    assert spoken(seconds) == text
