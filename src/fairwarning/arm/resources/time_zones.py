"""Azure's names of time zones, which are those of Windows, and their offsets.

The offset is that of standard time. Daylight saving time is not followed.
"""

from collections.abc import Mapping
from datetime import timedelta, timezone

from fairwarning.arm.http.errors import invalid_value

HOURS: Mapping[str, float] = {
    "Dateline Standard Time": -12, "UTC-11": -11, "Hawaiian Standard Time": -10,
    "Alaskan Standard Time": -9, "Pacific Standard Time": -8, "Pacific Standard Time (Mexico)": -8,
    "US Mountain Standard Time": -7, "Mountain Standard Time": -7,
    "Mountain Standard Time (Mexico)": -7, "Central Standard Time": -6,
    "Central Standard Time (Mexico)": -6, "Central America Standard Time": -6,
    "Canada Central Standard Time": -6, "Eastern Standard Time": -5,
    "US Eastern Standard Time": -5, "SA Pacific Standard Time": -5, "Atlantic Standard Time": -4,
    "SA Western Standard Time": -4, "Venezuela Standard Time": -4,
    "Newfoundland Standard Time": -3.5, "E. South America Standard Time": -3,
    "Argentina Standard Time": -3,
    "SA Eastern Standard Time": -3, "Greenland Standard Time": -3, "UTC-02": -2,
    "Azores Standard Time": -1, "Cape Verde Standard Time": -1, "UTC": 0, "GMT Standard Time": 0,
    "Greenwich Standard Time": 0, "W. Europe Standard Time": 1, "Romance Standard Time": 1,
    "Central Europe Standard Time": 1, "Central European Standard Time": 1,
    "W. Central Africa Standard Time": 1, "E. Europe Standard Time": 2, "FLE Standard Time": 2,
    "GTB Standard Time": 2, "Israel Standard Time": 2, "South Africa Standard Time": 2,
    "Egypt Standard Time": 2, "Arab Standard Time": 3, "Russian Standard Time": 3,
    "Turkey Standard Time": 3, "E. Africa Standard Time": 3, "Iran Standard Time": 3.5,
    "Arabian Standard Time": 4, "Pakistan Standard Time": 5, "India Standard Time": 5.5,
    "Sri Lanka Standard Time": 5.5, "Nepal Standard Time": 5.75, "Bangladesh Standard Time": 6,
    "Myanmar Standard Time": 6.5, "SE Asia Standard Time": 7, "China Standard Time": 8,
    "Singapore Standard Time": 8, "Taipei Standard Time": 8, "W. Australia Standard Time": 8,
    "Tokyo Standard Time": 9, "Korea Standard Time": 9, "Cen. Australia Standard Time": 9.5,
    "AUS Central Standard Time": 9.5, "AUS Eastern Standard Time": 10,
    "E. Australia Standard Time": 10, "Tasmania Standard Time": 10,
    "Central Pacific Standard Time": 11, "New Zealand Standard Time": 12, "UTC+12": 12,
    "Tonga Standard Time": 13,
}  # fmt: skip
"""Hours east of Greenwich, by name."""
_ZONES = {name.lower(): timezone(timedelta(hours=hours)) for name, hours in HOURS.items()}


def parse(name: str, where: str) -> timezone:
    """Return the time zone of a name; refuse an unknown one."""
    zone = _ZONES.get(name.lower())
    if zone is None:
        allowed = "the name of a time zone, such as UTC or Pacific Standard Time"
        raise invalid_value(where, name, allowed)
    return zone
