"""What may stand in a fleet file: one reader for each value, and where it stands if it is wrong."""

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from enum import StrEnum
from typing import Any

from fairwarning.core import checks, limits, times
from fairwarning.core.errors import Refused
from fairwarning.core.model import (
    EvictionPolicy,
    Machine,
    Priority,
    ScaleInRule,
    UpgradeMode,
)
from fairwarning.core.record import Check
from fairwarning.service.config.settings import HOSTS, CloudSettings, DriverKind

Given = dict[str, Any]
"""The keys of one table, with their values as read."""

Read = Callable[[object], Any]
"""Makes a value of what stands in the file, or refuses it."""


# --- Refusing -----------------------------------------------------------------------------------


class FleetFileError(Refused):
    """Something in the file is wrong, at a place that is known from the outside in."""

    def __init__(self, what: str, *places: str) -> None:
        super().__init__("BadFleetFile", f"{', '.join(places)}: {what}" if places else what)
        self.what = what
        self.places = places


@contextmanager
def at(place: str) -> Iterator[None]:
    """Whatever is wrong inside is wrong at this place."""
    try:
        yield
    except FleetFileError as wrong:
        raise FleetFileError(wrong.what, place, *wrong.places) from None
    except Refused as refused:  # by the core, which knows of no places
        raise FleetFileError(refused.message, place) from None


def _shown(value: object) -> str:
    """The value if it is sure to be short, else what kind of value it is."""
    if isinstance(value, str):
        return repr(value[:60])
    if isinstance(value, int) and abs(value) < 10**12:
        return str(value).lower()
    kinds = {dict: "a table", list: "an array", int: "a number of that size"}
    return kinds.get(type(value), "a fraction or a date")


def _unknown(key: str, keys: Iterable[str]) -> FleetFileError:
    from difflib import get_close_matches  # noqa: PLC0415  (a sound file does without)

    near = get_close_matches(key[:60], keys, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(keys)}"
    return FleetFileError(f"there is no key {key[:60]!r}; {hint}")


def parsed(text: str) -> Given:
    """The file as TOML has it."""
    import tomllib  # noqa: PLC0415  (a start without a fleet file does without)

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
        what = str(error).replace("at end of document", f"at line {line}, column {column}")
        raise FleetFileError(f"this is not TOML: {what}") from None
    except (RecursionError, ValueError):
        raise FleetFileError(
            "a number has thousands of digits, or an array thousands of levels"
        ) from None


# --- Values -------------------------------------------------------------------------------------


def _of(check: Check) -> Read:
    def take(value: object) -> object:
        if allowed := check(value):
            raise FleetFileError(f"must be {allowed}, not {_shown(value)}")
        return value

    return take


def _word(kind: type[StrEnum]) -> Read:
    def take(value: object) -> StrEnum:
        for one in kind:
            if value == one.value:
                return one
        raise FleetFileError(f"must be one of {', '.join(kind)}, not {_shown(value)}")

    return take


def _notice(value: object) -> int:
    bounds = limits.TERMINATE_MIN_SECONDS, limits.TERMINATE_MAX_SECONDS
    try:
        seconds = times.parse_duration(value) if isinstance(value, str) else 0
    except Refused:
        seconds = 0
    if not bounds[0] <= seconds <= bounds[1]:  # T1
        least, most = map(times.format_duration, bounds)
        raise FleetFileError(f"must be a duration from '{least}' to '{most}', not {_shown(value)}")
    return seconds


def _address(value: object) -> str:
    """The address in its one usual spelling, since a connection's is compared with it (M22)."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            packed = socket.inet_pton(family, value if isinstance(value, str) else "")
        except (OSError, ValueError):
            continue
        return socket.inet_ntop(family, packed).removeprefix("::ffff:")
    raise FleetFileError(f"must be an IPv4 or IPv6 address, not {_shown(value)}")


def table(raw: object, keys: dict[str, Read], *needed: str) -> Given:
    """A table with these keys and no others, its values read."""
    if not isinstance(raw, dict):
        raise FleetFileError(f"must be a table, not {_shown(raw)}")
    for key in raw:
        if key not in keys:
            raise _unknown(key, keys)
    for key in needed:
        if key not in raw:
            raise FleetFileError(f"{key} is missing")
    given = {}
    for key, value in raw.items():
        with at(key):
            given[key] = keys[key](value)
    return given


def tables(value: object) -> list[object]:
    """Entries of one kind."""
    if not isinstance(value, list):
        raise FleetFileError(
            "must be an array of tables: write its heading in double brackets, [[...]]"
        )
    return value


def machine(given: Given) -> Machine:
    """The machine that these keys describe."""
    own = {key: given[key] for key in MACHINE if key in given}
    return Machine(terminate_seconds=own.pop("terminate_notice", 0), **own)


def place_of(kind: str, number: int, raw: object) -> str:
    """What an entry is called where something in it is wrong."""
    name = raw.get("name") if isinstance(raw, dict) else None
    return f"{kind} {number}" if checks.name(name) else f'{kind} {number} ("{name}")'


def members(value: object) -> list[Machine] | int:
    """The machines of an availability set: themselves, or how many."""
    if not isinstance(value, list):
        count: int = _MACHINES(value)
        return count
    machines = []
    for number, raw in enumerate(value, 1):
        named = {"name": raw} if isinstance(raw, str) else raw
        with at(place_of("machine", number, named)):
            machines.append(machine(table(named, MACHINE, "name")))
    return machines


def roles(value: object) -> dict[str, int]:
    """How many machines each role of a cloud service has."""
    if not isinstance(value, dict):
        raise FleetFileError(f"must be a table such as {{ FrontEnd = 2 }}, not {_shown(value)}")
    for role in value:
        _PLAIN(role)
    return table(value, dict.fromkeys(value, _MACHINES))


def _names(value: object) -> tuple[str, ...]:
    """More names by which the service may be called."""
    names = _of(checks.names(limits.TAGS))(tuple(value) if isinstance(value, list) else value)
    return tuple(name.lower() for name in names)


def _words(value: object) -> tuple[str, ...]:
    """A program and its arguments."""
    words = tuple(value) if isinstance(value, list) else ()
    if not words or not all(isinstance(one, str) and "\0" not in one for one in words):
        raise FleetFileError(
            f'must be a program and its arguments, ["/bin/x", "-y"], not {_shown(value)}'
        )
    return words


_MOST_REQUESTS = 1000
_DAY_SECONDS = 24 * 3600
_MOST_DAYS = 36_500
_MOST_CONNECTIONS = 1_000_000
_NAME = _of(checks.name)
_PLAIN = _of(checks.plain)  # placement groups are `web/0`, which nothing else may be
_MACHINES = _of(checks.whole(1, limits.SCOPE_MACHINES))
_RULES = {name: _of(check) for name, check in checks.RULES.items()}

KIND: dict[str, Read] = {
    "priority": _word(Priority),
    "eviction": _word(EvictionPolicy),
    "terminate_notice": _notice,
    "size": _NAME,
    "zone": _NAME,
    "tags": _of(checks.tags),
}
MACHINE = {"name": _PLAIN, "host_name": _NAME, "host": _NAME, "address": _address, **KIND}
ENTRY: dict[str, Read] = {
    "name": _PLAIN,
    "group": _PLAIN,
    "rules": lambda value: table(value, _RULES),
}
DOMAINS = {
    "update_domains": _of(checks.whole(1, limits.UPDATE_DOMAINS_MAX)),
    "fault_domains": _of(checks.whole(1, limits.FAULT_DOMAINS_MAX)),
}
SCALE_SET = {
    "capacity": _of(checks.whole(0, limits.SET_INSTANCES)),
    "prefix": _PLAIN,
    "upgrade": _word(UpgradeMode),
    "scale_in": _word(ScaleInRule),
}
MODEL = {key: KIND[key] for key in ("terminate_notice", "size", "tags")} | {
    key: SCALE_SET[key] for key in ("upgrade", "scale_in")
}
"""What of a scale set may be changed later."""
COUNT = {"count": _of(checks.whole(1, limits.SET_INSTANCES))}
ENDPOINT: dict[str, Read] = {
    "preview": _of(checks.boolean),
    "hosts": lambda value: HOSTS.union(_names(value)),
    "requests_per_second": _of(checks.whole(0, _MOST_REQUESTS)),
    "connections": _of(checks.whole(1, _MOST_CONNECTIONS)),
    "connections_of_machine": _of(checks.whole(1, _MOST_CONNECTIONS)),
}
CONTROL_PLANE: dict[str, Read] = {
    "ends_at_acceptance": _of(checks.boolean),
    "hosts": _names,
}
CONSOLE: dict[str, Read] = {"hosts": _names, "webhook_hosts": _names}
DRIVER: dict[str, Read] = {
    "kind": _word(DriverKind),
    "program": _words,
    "check": _words,
    "timeout_seconds": _of(checks.whole(1, _DAY_SECONDS)),
    "grace_seconds": _of(checks.whole(0, _DAY_SECONDS)),
    "uri": _NAME,
    "destination": _NAME,
}
CLUSTER: dict[str, Read] = {
    "staleness_seconds": _of(checks.whole(1, _DAY_SECONDS)),
    "lease_seconds": _of(checks.whole(1, 60)),
}
JOURNAL: dict[str, Read] = {"keep_days": _of(checks.whole(0, _MOST_DAYS))}
CLOUD = {one.name: _PLAIN for one in fields(CloudSettings)}
