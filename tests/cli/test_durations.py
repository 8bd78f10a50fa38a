"""Lengths of time, as they are typed and shown."""

import click
import pytest

from fairwarning.cli.durations import Duration, Notice, WholeSeconds
from fairwarning.core.times import spoken


@pytest.mark.parametrize(
    ("typed", "seconds"),
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
def test_what_is_typed(typed: str, seconds: float) -> None:
    """Seconds, units, and ISO 8601 are understood."""
    assert Duration()(typed) == seconds


@pytest.mark.parametrize("typed", ["", "m", "15 m", "-5", "15x", "PT", "1e3", "inf", "15m5", "٣"])
def test_what_is_no_length(typed: str) -> None:
    """Anything else is refused with what is allowed."""
    with pytest.raises(click.BadParameter, match="write 90, 90s, 15m"):
        Duration()(typed)


def test_whole_seconds_and_notices() -> None:
    """A fraction is refused where the service counts whole seconds; `none` is no notice."""
    assert WholeSeconds()("1m") == 60
    with pytest.raises(click.BadParameter, match="whole number"):
        WholeSeconds()("0.5")
    assert [Notice()(typed) for typed in ("5m", "PT5M", "300", "none", "None")] == [
        *("PT5M", "PT5M", "PT5M", "", ""),
    ]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-1, "0 s"), (0.4, "0.4 s"), (3.2, "3.2 s"), (900, "15 min"), (93784, "1 d 2 h")],
)
def test_what_is_shown(seconds: float, shown: str) -> None:
    """At most two units."""
    assert spoken(seconds) == shown
