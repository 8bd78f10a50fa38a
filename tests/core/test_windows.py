"""Maintenance windows: when they open (E7)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core import windows
from fairwarning.core.errors import Refused
from fairwarning.core.times import iso, parse_date

pytestmark = pytest.mark.spec("C1", "E7")

WINDOWS = (
    "2026-11-20T02:00Z PT4H",
    "2026-11-20T23:00+05:30 PT2H Day",
    "2026-11-20T02:00Z PT4H 3Days",
    "2026-11-20T02:00+01:00 PT4H 2Weeks Saturday,Sunday",
    "2026-11-20T02:00Z PT4H Month day31",
    "2026-11-20T02:00Z PT4H 2Months Last Sunday Offset 3",
)


@pytest.mark.parametrize(
    ("text", "at", "openings"),
    [
        ("2026-11-20T02:00Z PT4H", "2026-11-01T00:00Z", ["2026-11-20T02:00:00Z"]),
        ("2026-11-20T02:00Z PT4H", "2026-11-20T03:00Z", ["2026-11-20T03:00:00Z"]),
        ("2026-11-20T02:00Z PT4H", "2026-11-20T06:00Z", []),
        (
            "2026-11-20T02:00Z PT4H 3Days",
            "2026-11-20T06:00Z",
            ["2026-11-23T02:00:00Z", "2026-11-26T02:00:00Z"],
        ),
        (  # 20 November 2026 is a Friday, so the next day is in the same week
            "2026-11-20T02:00+01:00 PT4H 2Weeks Saturday,Sunday",
            "2026-11-20T00:00Z",
            ["2026-11-21T01:00:00Z", "2026-11-22T01:00:00Z", "2026-12-05T01:00:00Z"],
        ),
        (
            "2026-11-20T23:00Z PT2H Week",
            "2026-11-21T00:30Z",
            ["2026-11-21T00:30:00Z", "2026-11-27T23:00:00Z"],
        ),
        (
            "2026-11-20T02:00Z PT1H Month day23,day-1",
            "2026-11-20T00:00Z",
            ["2026-11-23T02:00:00Z", "2026-11-30T02:00:00Z", "2026-12-23T02:00:00Z"],
        ),
        (
            "2026-11-01T02:00Z PT1H 2Months Second Tuesday",
            "2026-11-01T00:00Z",
            ["2026-11-10T02:00:00Z", "2027-01-12T02:00:00Z"],
        ),
        (
            "2026-11-01T02:00Z PT1H Month Last Sunday Offset 3",
            "2026-11-01T00:00Z",
            ["2026-12-02T02:00:00Z", "2026-12-30T02:00:00Z"],
        ),
        (
            "2026-11-20T02:00Z PT4H Day until 2026-11-22T00:00Z",
            "2026-11-20T06:00Z",
            ["2026-11-21T02:00:00Z"],
        ),
    ],
)
def test_when_it_opens(text: str, at: str, openings: list[str]) -> None:
    """Each way to say how often."""
    window = windows.parse(text)
    moment = float(parse_date(at))
    for expected in openings:
        opened = windows.opening(window, moment)
        assert opened is not None
        assert iso(int(opened)) == expected
        began = windows.begin(window, moment)
        assert began is not None
        moment = began + window.seconds
    if len(openings) < 2:
        assert windows.opening(window, moment) is None


@pytest.mark.parametrize(
    "text",
    [
        "soon", "2026-11-20T02:00Z", "2026-11-20T02:00Z PT0S", "2026-11-20T02:00Z P2D Day",
        "2026-11-20T02:00Z PT1H Year", "2026-11-20T02:00Z PT1H Week Someday",
        "2026-11-20T02:00Z PT1H 0Days", "2026-11-20T02:00Z PT1H 99Days",
        "2026-11-20T02:00Z PT1H Month day40", "2026-11-20T02:00Z PT1H Month Fifth Monday",
        "2026-11-20T02:00Z PT1H Day Monday", "2026-11-20T02:00Z PT1H until never",
    ],
)  # fmt: skip
def test_what_is_no_window(text: str) -> None:
    """The error shows the form of a window."""
    with pytest.raises(Refused, match="a window must be '<start> <duration>"):
        windows.parse(text)
    assert windows.check(text)
    assert not windows.check("")


@given(st.sampled_from(WINDOWS), st.integers(0, 3 * 365 * 24 * 3600))
def test_it_is_open_at_its_opening(text: str, seconds: int) -> None:
    """And stays so until its end."""
    window = windows.parse(text)
    at = window.start + seconds
    opened = windows.opening(window, at)
    if opened is None:
        assert not window.unit
        return
    began = windows.begin(window, at)
    assert began is not None
    assert began <= opened < began + window.seconds
    assert opened >= at
    assert windows.opening(window, opened) == opened


def test_several_windows_have_a_common_time() -> None:
    """Or none."""
    at = float(parse_date("2026-11-20T00:00Z"))
    first, second = "2026-11-20T02:00Z PT4H Day", "2026-11-20T05:00Z PT4H Week Sunday"
    opened = windows.common_opening((first, second), at)
    assert opened is not None
    assert iso(int(opened)) == "2026-11-22T05:00:00Z"
    never = "2026-11-20T06:00Z PT1H Day"
    assert windows.common_opening((first, never), at) is None
    assert windows.common_opening((), at) == at
