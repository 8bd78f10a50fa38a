"""Readers for the values of a fleet file. An error names the place in the file."""

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from enum import StrEnum
from typing import Any

from fairwarning.core import checks, limits, times
from fairwarning.core.errors import Refused
from fairwarning.core.model import EvictionPolicy, Machine, Priority, ScaleInRule, UpgradeMode
from fairwarning.core.record import Check
from fairwarning.service.config.settings import HOSTS, CloudSettings, DriverKind

Table = dict[str, Any]
"""A TOML table with its values read."""

Read = Callable[[object], Any]
"""Converts a TOML value, or raises `FleetFileError`."""


# --- Errors -------------------------------------------------------------------------------------


class FleetFileError(Refused):
    """An error in the file, with its place from the outermost table to the key."""

    def __init__(self, what: str, *places: str) -> None:
        super().__init__("BadFleetFile", f"{', '.join(places)}: {what}" if places else what)
        self.what = what
        self.places = places


@contextmanager
def at(place: str) -> Iterator[None]:
    """Add this place to every error raised inside."""
    try:
        yield
    except FleetFileError as error:
        raise FleetFileError(error.what, place, *error.places) from None
    except Refused as refused:  # from the core, whose errors have no place
        raise FleetFileError(refused.message, place) from None


def _describe(value: object) -> str:
    """Describe a value: itself if it is short, else its type."""
    if isinstance(value, str):
        return repr(value[:60])
    if isinstance(value, int) and abs(value) < 10**12:
        return str(value).lower()
    kinds = {dict: "a table", list: "an array", int: "a number of that size"}
    return kinds.get(type(value), "a fraction or a date")


def _unknown(key: str, keys: Iterable[str]) -> FleetFileError:
    from difflib import get_close_matches  # noqa: PLC0415  (a valid file does not need it)

    matches = get_close_matches(key[:60], keys, n=1)
    hint = f"did you mean {matches[0]}?" if matches else f"known here: {', '.join(keys)}"
    return FleetFileError(f"there is no key {key[:60]!r}; {hint}")


def parse_toml(text: str) -> Table:
    """Parse TOML."""
    import tomllib  # noqa: PLC0415  (only needed with a fleet file)

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
        reason = str(error).replace("at end of document", f"at line {line}, column {column}")
        raise FleetFileError(f"this is not TOML: {reason}") from None
    except (RecursionError, ValueError):
        raise FleetFileError(
            "a number has thousands of digits, or an array thousands of levels"
        ) from None


# --- Values -------------------------------------------------------------------------------------


def _checked(check: Check) -> Read:
    def read(value: object) -> object:
        if allowed := check(value):
            raise FleetFileError(f"must be {allowed}, not {_describe(value)}")
        return value

    return read


def _member(enum: type[StrEnum]) -> Read:
    def read(value: object) -> StrEnum:
        for member in enum:
            if value == member.value:
                return member
        raise FleetFileError(f"must be one of {', '.join(enum)}, not {_describe(value)}")

    return read


def _notice(value: object) -> int:
    bounds = limits.TERMINATE_MIN_SECONDS, limits.TERMINATE_MAX_SECONDS
    try:
        seconds = times.parse_duration(value) if isinstance(value, str) else 0
    except Refused:
        seconds = 0
    if not bounds[0] <= seconds <= bounds[1]:  # T1
        shortest, longest = map(times.format_duration, bounds)
        raise FleetFileError(
            f"must be a duration from '{shortest}' to '{longest}', not {_describe(value)}"
        )
    return seconds


def _address(value: object) -> str:
    """Return the address in canonical form, to compare it with a connection's address (M22)."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            packed = socket.inet_pton(family, value if isinstance(value, str) else "")
        except (OSError, ValueError):
            continue
        return socket.inet_ntop(family, packed).removeprefix("::ffff:")
    raise FleetFileError(f"must be an IPv4 or IPv6 address, not {_describe(value)}")


def table(raw: object, keys: dict[str, Read], *required: str) -> Table:
    """Read a table that may have only these keys."""
    if not isinstance(raw, dict):
        raise FleetFileError(f"must be a table, not {_describe(raw)}")
    for key in raw:
        if key not in keys:
            raise _unknown(key, keys)
    for key in required:
        if key not in raw:
            raise FleetFileError(f"{key} is missing")
    values = {}
    for key, value in raw.items():
        with at(key):
            values[key] = keys[key](value)
    return values


def tables(value: object) -> list[object]:
    """Read the entries of one kind."""
    if not isinstance(value, list):
        raise FleetFileError(
            "must be an array of tables: write its heading in double brackets, [[...]]"
        )
    return value


def machine(entry: Table) -> Machine:
    """Return the machine that an entry describes."""
    values = {key: entry[key] for key in MACHINE if key in entry}
    return Machine(terminate_seconds=values.pop("terminate_notice", 0), **values)


def place_of(kind: str, number: int, raw: object) -> str:
    """Return the place of an entry, for errors."""
    name = raw.get("name") if isinstance(raw, dict) else None
    return f"{kind} {number}" if checks.name(name) else f'{kind} {number} ("{name}")'


def members(value: object) -> list[Machine] | int:
    """Read the machines of an availability set: a list, or a number."""
    if not isinstance(value, list):
        count: int = _MACHINES(value)
        return count
    machines = []
    for number, raw in enumerate(value, 1):
        entry = {"name": raw} if isinstance(raw, str) else raw
        with at(place_of("machine", number, entry)):
            machines.append(machine(table(entry, MACHINE, "name")))
    return machines


def roles(value: object) -> dict[str, int]:
    """Read the number of machines for each role of a cloud service."""
    if not isinstance(value, dict):
        raise FleetFileError(f"must be a table such as {{ FrontEnd = 2 }}, not {_describe(value)}")
    for role in value:
        _PLAIN(role)
    return table(value, dict.fromkeys(value, _MACHINES))


def _names(value: object) -> tuple[str, ...]:
    """Read host names, in lower case."""
    names = _checked(checks.names(limits.TAGS))(tuple(value) if isinstance(value, list) else value)
    return tuple(name.lower() for name in names)


def _zones(value: object) -> tuple[str, ...]:
    """Read the zones of a scale set."""
    names = tuple(value) if isinstance(value, list) else value
    zones: tuple[str, ...] = _checked(checks.zones)(names)
    return zones


def _path(value: object) -> str:
    """Read the path of a file."""
    if isinstance(value, str) and value and "\0" not in value:
        return value
    raise FleetFileError(f"must be the path of a file, not {_describe(value)}")


def _command_line(value: object) -> tuple[str, ...]:
    """Read a program and its arguments."""
    words = tuple(value) if isinstance(value, list) else ()
    if not words or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise FleetFileError(
            f'must be a program and its arguments, ["/bin/x", "-y"], not {_describe(value)}'
        )
    return words


_REQUESTS_MAX = 1000
_DAY_SECONDS = 24 * 3600
_DAYS_MAX = 36_500
_CONNECTIONS_MAX = 1_000_000
_NAME = _checked(checks.name)
_PLAIN = _checked(checks.plain)  # no slash: only placement groups have one (`web/0`)
_MACHINES = _checked(checks.whole(1, limits.SCOPE_MACHINES))
_SUBNET = _checked(checks.subnet)
_RULES = {name: _checked(check) for name, check in checks.RULES.items()}

KIND: dict[str, Read] = {
    "priority": _member(Priority),
    "eviction": _member(EvictionPolicy),
    "terminate_notice": _notice,
    "size": _NAME,
    "tags": _checked(checks.tags),
}
MACHINE = {
    "zone": _NAME,
    "name": _PLAIN,
    "host_name": _NAME,
    "host": _NAME,
    "address": _address,
    "subnet": _SUBNET,
    **KIND,
}
ENTRY: dict[str, Read] = {
    "name": _PLAIN,
    "group": _PLAIN,
    "subnet": _SUBNET,
    "rules": lambda value: table(value, _RULES),
}
DOMAINS = {
    "update_domains": _checked(checks.whole(1, limits.UPDATE_DOMAINS_MAX)),
    "fault_domains": _checked(checks.whole(1, limits.FAULT_DOMAINS_MAX)),
}
SCALE_SET = {
    "capacity": _checked(checks.whole(0, limits.SET_INSTANCES)),
    "prefix": _PLAIN,
    "upgrade": _member(UpgradeMode),
    "scale_in": _member(ScaleInRule),
    "zones": _zones,
}
MODEL = {key: KIND[key] for key in ("terminate_notice", "size", "tags")} | {
    key: SCALE_SET[key] for key in ("upgrade", "scale_in")
}
"""The keys of a scale set that can be changed later."""
COUNT = {"count": _checked(checks.whole(1, limits.SET_INSTANCES))}
ENDPOINT: dict[str, Read] = {
    "preview": _checked(checks.boolean),
    "hosts": lambda value: HOSTS.union(_names(value)),
    "requests_per_second": _checked(checks.whole(0, _REQUESTS_MAX)),
    "connections": _checked(checks.whole(1, _CONNECTIONS_MAX)),
    "connections_of_machine": _checked(checks.whole(1, _CONNECTIONS_MAX)),
    "default_machine": _NAME,
}
PORT: dict[str, Read] = {
    "connections": _checked(checks.whole(1, _CONNECTIONS_MAX)),
    "connections_of_address": _checked(checks.whole(1, _CONNECTIONS_MAX)),
}
CONTROL_PLANE: dict[str, Read] = {
    "ends_at_acceptance": _checked(checks.boolean),
    "hosts": _names,
    **PORT,
}
CONSOLE: dict[str, Read] = {
    "hosts": _names,
    "webhook_hosts": _names,
    "tls": _checked(checks.boolean),
    "certificate": _path,
    "key": _path,
    **PORT,
}
DRIVER: dict[str, Read] = {
    "kind": _member(DriverKind),
    "program": _command_line,
    "check": _command_line,
    "timeout_seconds": _checked(checks.whole(1, _DAY_SECONDS)),
    "grace_seconds": _checked(checks.whole(0, _DAY_SECONDS)),
    "boot_seconds": _checked(checks.whole(0, _DAY_SECONDS)),
    "uri": _NAME,
    "destination": _NAME,
}
CLUSTER: dict[str, Read] = {
    "staleness_seconds": _checked(checks.whole(1, _DAY_SECONDS)),
    "lease_seconds": _checked(checks.whole(1, 60)),
}
JOURNAL: dict[str, Read] = {"keep_days": _checked(checks.whole(0, _DAYS_MAX))}
OPERATIONS: dict[str, Read] = {"keep_days": _checked(checks.whole(0, _DAYS_MAX))}
CLOUD = {setting.name: _PLAIN for setting in fields(CloudSettings)}
