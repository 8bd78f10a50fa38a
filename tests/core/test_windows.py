"""Maintenance windows: when they open (E7)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core import windows
from fairwarning.core.errors import Refused
from fairwarning.core.times import iso, parse_date

pytestmark = pytest.mark.spec("E7")

_EVERY_DAY = "Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday"
_WEEKEND = "Saturday,Sunday 02:00+01:00 PT4H"


@pytest.mark.parametrize(
    ("texts", "at", "opens"),
    [
        (["Daily 02:00Z PT4H"], "2026-11-20T00:00Z", "2026-11-20T02:00:00Z"),
        (["Daily 02:00Z PT4H"], "2026-11-20T03:00Z", "2026-11-20T03:00:00Z"),
        (["Daily 02:00Z PT4H"], "2026-11-20T06:00Z", "2026-11-21T02:00:00Z"),
        (["Daily 23:00+05:30 PT1H"], "2026-11-20T00:00Z", "2026-11-20T17:30:00Z"),
        (["daily 23:00-05:00 PT1H"], "2026-11-20T05:00Z", "2026-11-21T04:00:00Z"),
        # 20 November 2026 is a Friday.
        ([_WEEKEND], "2026-11-20T00:00Z", "2026-11-21T01:00:00Z"),
        ([_WEEKEND], "2026-11-22T05:00Z", "2026-11-28T01:00:00Z"),
        (["Sunday 22:00Z PT4H"], "2026-11-23T01:00Z", "2026-11-23T01:00:00Z"),
        (["Sunday 22:00Z PT4H"], "2026-11-23T02:00Z", "2026-11-29T22:00:00Z"),
        (["Monday 00:30+01:00 PT1H"], "2026-11-23T00:00Z", "2026-11-23T00:00:00Z"),
        (["Daily 00:00Z P1D"], "2026-11-22T23:59Z", "2026-11-22T23:59:00Z"),
        ([_WEEKEND, "Sunday 04:00Z PT8H"], "2026-11-20T00:00Z", "2026-11-22T04:00:00Z"),
        ([_WEEKEND, "Monday 04:00Z PT8H"], "2026-11-20T00:00Z", None),
        ([f"{_EVERY_DAY} 02:00Z PT4H"], "2026-11-20T06:00Z", "2026-11-21T02:00:00Z"),
        ([], "2026-11-20T00:00Z", "2026-11-20T00:00:00Z"),
    ],
)
def test_openings(texts: list[str], at: str, opens: str | None) -> None:
    """A window is open on its days for its length, also past midnight and the end of a week."""
    opening = windows.common_opening(texts, float(parse_date(at)))
    assert (None if opening is None else iso(int(opening))) == opens


@pytest.mark.parametrize(
    ("texts", "at", "opened"),
    [
        (["Daily 02:00Z PT4H"], "2026-11-20T03:00Z", "2026-11-20T02:00:00Z"),
        (["Monday 00:00Z PT4H"], "2026-11-23T01:00Z", "2026-11-23T00:00:00Z"),
        (["Sunday 22:00Z PT4H"], "2026-11-23T01:00Z", "2026-11-22T22:00:00Z"),
        (["Sunday 22:00Z PT4H"], "2026-11-22T23:00Z", "2026-11-22T22:00:00Z"),
        (["Friday,Saturday 00:00Z P1D"], "2026-11-21T12:00Z", "2026-11-20T00:00:00Z"),
        (["Daily 02:00Z PT4H", "Daily 03:00Z PT4H"], "2026-11-20T05:00Z", "2026-11-20T03:00:00Z"),
        (["Saturday 02:00Z PT4H", "Daily 00:00Z P1D"], "2026-11-21T03:00Z", "2026-11-21T02:00:00Z"),
    ],
)
def test_when_an_open_window_was_opened(texts: list[str], at: str, opened: str) -> None:
    """The last of several windows counts; one that is open since last week was opened then."""
    assert iso(int(windows.opened_at(texts, float(parse_date(at))))) == opened


def test_windows_that_only_touch_have_no_common_time() -> None:
    """One ends at the moment at which the other opens."""
    touching = ["Daily 02:00Z PT2H", "Daily 04:00Z PT2H"]
    assert windows.common_opening(touching, float(parse_date("2026-11-20T00:00Z"))) is None


@pytest.mark.parametrize(
    "text",
    [
        "Saturday 02:00 PT4H",
        "Saturday 24:00Z PT4H",
        "Saturday 02:00Z PT0S",
        "Saturday 02:00Z P2D",
        "Saturday 02:00Z four hours",
        "Someday 02:00Z PT4H",
        "Saturday,,Sunday 02:00Z PT4H",
        "Daily,Sunday 02:00Z PT4H",
        "Saturday 02:00+15:00 PT4H",
        "2026-11-20T02:00Z PT4H Day",
        "0001-01-01T00:00Z PT4H",
        "Saturday  02:00Z PT4H",
        None,
        7,
    ],
)
def test_other_texts_are_refused(text: object) -> None:
    """The refusal says the form of a window."""
    allowed = windows.check(text)
    assert allowed
    assert "Saturday,Sunday 02:00+01:00 PT4H" in allowed
    if isinstance(text, str):
        with pytest.raises(Refused, match="a window must be"):
            windows.intervals(text)


def test_no_window_is_allowed() -> None:
    """A scope without a window can be maintained at any time."""
    assert windows.check("") is None


_MINUTES = st.integers(0, 24 * 60 - 1)
_TEXTS = st.builds(
    lambda days, at, length, zone: f"{','.join(days)} {at // 60:02}:{at % 60:02}{zone} PT{length}M",
    st.lists(st.sampled_from(["Monday", "Wednesday", "Saturday", "Sunday"]), min_size=1),
    _MINUTES,
    st.integers(1, 24 * 60),
    st.sampled_from(["Z", "+14:00", "-12:00", "+05:30"]),
)


def _is_open(text: str, minute: int) -> bool:
    """Whether a window is open, by looking at each day on which it may have begun."""
    days, time, length = text.split(" ")
    zone = time[5:].replace("Z", "+00:00")
    offset = (1 if zone[0] == "+" else -1) * (int(zone[1:3]) * 60 + int(zone[4:6]))
    local = minute + offset
    for ago in range(3):
        day = local // 1440 - ago
        begins = day * 1440 + int(time[:2]) * 60 + int(time[3:5])
        weekday = ("Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday")
        if weekday[day % 7] in days and begins <= local < begins + int(length[2:-1]):
            return True
    return False


@given(st.lists(_TEXTS, min_size=1, max_size=3), st.integers(1, 2**33))
def test_an_opening_is_the_first_open_minute(texts: list[str], minute: int) -> None:
    """Compared with a search through all minutes of a week; any time has an answer."""
    opening = windows.common_opening(texts, float(minute * 60))
    week = range(minute, minute + 7 * 1440)
    expected = next((m for m in week if all(_is_open(text, m) for text in texts)), None)
    assert opening == (None if expected is None else expected * 60)
