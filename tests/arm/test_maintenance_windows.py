"""Azure's maintenance windows as windows of scopes (C1)."""

from typing import Any

import pytest

from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.resources.maintenance_windows import window_text
from fairwarning.arm.resources.time_zones import HOURS

pytestmark = pytest.mark.spec("C1")

START = "2026-11-20 02:00"


def text(**window: Any) -> str:  # noqa: ANN401  (any JSON)
    """Return the text of a window."""
    return window_text({"properties": {"maintenanceWindow": {"startDateTime": START, **window}}})


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ({}, "2026-11-20T02:00+00:00 PT2H"),
        ({"duration": "04:30"}, "2026-11-20T02:00+00:00 PT4H30M"),
        ({"startDateTime": "2026-11-20T02:00:00"}, "2026-11-20T02:00+00:00 PT2H"),
        ({"timeZone": "Pacific Standard Time"}, "2026-11-20T02:00-08:00 PT2H"),
        (
            {"timeZone": "pacific standard time", "startDateTime": "2026-07-01 02:00"},
            "2026-07-01T02:00-08:00 PT2H",
        ),
        ({"recurEvery": "Day"}, "2026-11-20T02:00+00:00 PT2H Day"),
        ({"recurEvery": "2Days"}, "2026-11-20T02:00+00:00 PT2H 2Days"),
        (
            {"recurEvery": "1Week Saturday,Sunday"},
            "2026-11-20T02:00+00:00 PT2H 1Week Saturday,Sunday",
        ),
        (
            {"recurEvery": "Month Second Tuesday"},
            "2026-11-20T02:00+00:00 PT2H Month Second Tuesday",
        ),
        (
            {"recurEvery": "2Months day23,day24"},
            "2026-11-20T02:00+00:00 PT2H 2Months day23,day24",
        ),
        (
            {"recurEvery": "Month Last Sunday Offset-3"},
            "2026-11-20T02:00+00:00 PT2H Month Last Sunday Offset -3",
        ),
        ({"expirationDateTime": "9999-12-31 23:59"}, "2026-11-20T02:00+00:00 PT2H"),
        (
            {
                "recurEvery": "Day",
                "expirationDateTime": "2027-01-01 00:00",
                "timeZone": "W. Europe Standard Time",
            },
            "2026-11-20T02:00+01:00 PT2H Day until 2026-12-31T23:00:00+00:00",
        ),
    ],
)
def test_a_window(window: dict[str, str], expected: str) -> None:
    """The parts of `az maintenance configuration create --maintenance-window-...`."""
    assert text(**window) == expected


def test_no_window() -> None:
    """A configuration without a window has none."""
    assert window_text({"properties": {}}) == ""


@pytest.mark.parametrize("zone", HOURS)
def test_every_time_zone_is_known(zone: str) -> None:
    """Each has an offset."""
    assert text(timeZone=zone).startswith("2026-11-20T02:00")


@pytest.mark.parametrize(
    ("window", "allowed"),
    [
        ({"startDateTime": "tomorrow"}, "2026-11-20 02:00"),
        ({"startDateTime": None}, "2026-11-20 02:00"),
        ({"duration": "4h"}, "04:00"),
        ({"duration": "30:00"}, "<duration>"),
        ({"duration": "00:00"}, "<duration>"),
        ({"timeZone": "Europe/Berlin"}, "Pacific Standard Time"),
        ({"recurEvery": "Fortnight"}, "2Weeks Monday,Friday"),
        ({"recurEvery": "Week Caturday"}, "2Weeks Monday,Friday"),
        ({"expirationDateTime": "never"}, "2026-11-20 02:00"),
    ],
)
def test_a_bad_window(window: dict[str, str], allowed: str) -> None:
    """The error says what is allowed."""
    with pytest.raises(ArmError) as caught:
        text(**window)
    assert caught.value.code == "InvalidParameter"
    assert allowed in caught.value.message
