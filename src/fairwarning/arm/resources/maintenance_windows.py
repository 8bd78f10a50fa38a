"""Azure's `maintenanceWindow` as the window of a scope (`core/windows.py`)."""

import re
from datetime import UTC, datetime, tzinfo

from fairwarning.arm.http.errors import ArmError
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import time_zones
from fairwarning.arm.resources.documents import invalid_value, typed_value
from fairwarning.core import windows
from fairwarning.core.errors import Refused
from fairwarning.core.times import format_duration

_WHERE = "properties.maintenanceWindow"
_TIME_FORMS = ("%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S")
_DURATION = re.compile(r"([0-9]{1,2}):([0-5][0-9])", re.ASCII)
_DEFAULT_DURATION = "02:00"
_OFFSET = re.compile(r"\s+offset\s*(-?[0-9])", re.IGNORECASE)
_NEVER = "9999"  # the year of an expiration that never comes


def window_text(body: Body) -> str:
    """Return the window of a maintenance configuration; "" if it has none.

    The time zone is its standard time: daylight saving time is not followed.
    """
    if not typed_value(body, _WHERE, dict):
        return ""
    name = typed_value(body, f"{_WHERE}.timeZone", str, "UTC")
    zone = time_zones.parse(name, f"{_WHERE}.timeZone")
    start = _moment(body, "startDateTime", zone)
    if start is None:
        raise invalid_value(f"{_WHERE}.startDateTime", "", "a time such as 2026-11-20 02:00")
    parts = [start.isoformat(timespec="minutes"), _duration(body)]
    if recurrence := typed_value(body, f"{_WHERE}.recurEvery", str, ""):
        parts.append(_OFFSET.sub(r" Offset \1", recurrence.strip()))
    end = _moment(body, "expirationDateTime", zone)
    if end is not None and str(end.year) != _NEVER:
        parts.append(f"until {end.astimezone(UTC).isoformat(timespec='seconds')}")
    text = " ".join(parts)
    try:
        windows.parse(text)
    except Refused as error:
        message = f"The maintenanceWindow is invalid: {error.message}"
        raise ArmError("InvalidParameter", message) from error
    return text


def _moment(body: Body, name: str, zone: tzinfo) -> datetime | None:
    text = typed_value(body, f"{_WHERE}.{name}", str)
    if text is None:
        return None
    for form in _TIME_FORMS:
        try:
            return datetime.strptime(text, form).replace(tzinfo=zone)
        except ValueError:
            continue
    raise invalid_value(f"{_WHERE}.{name}", text, "a time such as 2026-11-20 02:00")


def _duration(body: Body) -> str:
    text = typed_value(body, f"{_WHERE}.duration", str, _DEFAULT_DURATION)
    match = _DURATION.fullmatch(text)
    if match is None:
        raise invalid_value(f"{_WHERE}.duration", text, "hours and minutes such as 04:00")
    return format_duration((int(match[1]) * 60 + int(match[2])) * 60)
