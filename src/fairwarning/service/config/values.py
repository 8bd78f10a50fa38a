"""Readers for the values of a fleet file, and the keys of its tables."""

import re
import socket
from dataclasses import fields

from fairwarning.core import checks, limits, times
from fairwarning.core.configuration import (
    ConfigurationError,
    Read,
    Table,
    at,
    checked,
    describe,
    flag,
    one_of,
    place_of,
    table,
)
from fairwarning.core.errors import Refused
from fairwarning.core.model import EvictionPolicy, Machine, Priority, ScaleInRule, UpgradeMode
from fairwarning.service.config.settings import HOSTS, CloudSettings, DriverKind
from fairwarning.service.webhooks.targets import AllowedTargets


def _notice(value: object) -> int:
    bounds = limits.TERMINATE_MIN_SECONDS, limits.TERMINATE_MAX_SECONDS
    try:
        seconds = times.parse_duration(value) if isinstance(value, str) else 0
    except Refused:
        seconds = 0
    if not bounds[0] <= seconds <= bounds[1]:  # T1
        shortest, longest = map(times.format_duration, bounds)
        raise ConfigurationError(
            f"must be a duration from '{shortest}' to '{longest}', not {describe(value)}"
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
    raise ConfigurationError(f"must be an IPv4 or IPv6 address, not {describe(value)}")


def machine(entry: Table) -> Machine:
    """Return the machine that an entry describes."""
    values = {key: entry[key] for key in MACHINE if key in entry}
    return Machine(terminate_seconds=values.pop("terminate_notice", 0), **values)


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
        raise ConfigurationError(
            f"must be a table such as {{ FrontEnd = 2 }}, not {describe(value)}"
        )
    for role in value:
        _PLAIN(role)
    return table(value, dict.fromkeys(value, _MACHINES))


def _names(value: object) -> tuple[str, ...]:
    """Read names, in lower case."""
    names = checked(checks.names(limits.TAGS))(tuple(value) if isinstance(value, list) else value)
    return tuple(name.lower() for name in names)


def _hosts(value: object) -> tuple[str, ...]:
    """Read names and addresses that a Host header may have, without the port."""
    return tuple(map(_host, _names(value)))


def _arm_hosts(value: object) -> tuple[str, ...]:
    """Read such names, among them those of all hosts of a domain, as `*.example`."""
    names = _names(value)
    for name in names:
        _host(name.removeprefix("*."))
    return names


def _host(name: str) -> str:
    if _HOST_NAME.fullmatch(name):
        return name
    try:
        return _address(name)
    except ConfigurationError:
        text = "must be host names or addresses, without scheme, port and brackets, not"
        raise ConfigurationError(f"{text} {describe(name)}") from None


def _webhook_hosts(value: object) -> tuple[str, ...]:
    """Read the hosts that webhooks may be sent to."""
    names = _names(value)
    AllowedTargets(names)  # refuses what is no host
    return names


def _zones(value: object) -> tuple[str, ...]:
    """Read the zones of a scale set."""
    names = tuple(value) if isinstance(value, list) else value
    zones: tuple[str, ...] = checked(checks.zones)(names)
    return zones


def _path(value: object) -> str:
    """Read the path of a file."""
    if isinstance(value, str) and value and "\0" not in value:
        return value
    raise ConfigurationError(f"must be the path of a file, not {describe(value)}")


def _command_line(value: object) -> tuple[str, ...]:
    """Read a program and its arguments."""
    words = tuple(value) if isinstance(value, list) else ()
    if not words or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise ConfigurationError(
            f'must be a program and its arguments, ["/bin/x", "-y"], not {describe(value)}'
        )
    return words


_HOST_NAME = re.compile(r"[\w-]+(?:\.[\w-]+)*")
_REQUESTS_MAX = 1000
_DAY_SECONDS = 24 * 3600
_DAYS_MAX = 36_500
_CONNECTIONS_MAX = 1_000_000
_NAME = checked(checks.name)
_PLAIN = checked(checks.plain)
_ENTRY = checked(checks.entry)  # no slash: only placement groups have one (`web/0`)
_MACHINES = checked(checks.whole(1, limits.SCOPE_MACHINES))
_SUBNET = checked(checks.subnet)
_RULES = {name: checked(check) for name, check in checks.RULES.items()}

KIND: dict[str, Read] = {
    "priority": one_of(Priority),
    "eviction": one_of(EvictionPolicy),
    "terminate_notice": _notice,
    "size": _NAME,
    "tags": checked(checks.tags),
}
MACHINE = {
    "zone": _NAME,
    "name": _ENTRY,
    "host_name": _NAME,
    "host": _NAME,
    "address": _address,
    "subnet": _SUBNET,
    **KIND,
}
ENTRY: dict[str, Read] = {
    "name": _ENTRY,
    "group": _PLAIN,
    "subnet": _SUBNET,
    "rules": lambda value: table(value, _RULES),
}
DOMAINS = {
    "update_domains": checked(checks.whole(1, limits.UPDATE_DOMAINS_MAX)),
    "fault_domains": checked(checks.whole(1, limits.FAULT_DOMAINS_MAX)),
}
SCALE_SET = {
    "capacity": checked(checks.whole(0, limits.SET_INSTANCES)),
    "prefix": _PLAIN,
    "upgrade": one_of(UpgradeMode),
    "scale_in": one_of(ScaleInRule),
    "zones": _zones,
}
MODEL = {key: KIND[key] for key in ("terminate_notice", "size", "tags")} | {
    key: SCALE_SET[key] for key in ("upgrade", "scale_in")
}
"""The keys of a scale set that can be changed later."""
COUNT = {"count": checked(checks.whole(1, limits.SET_INSTANCES))}
ENDPOINT: dict[str, Read] = {
    "preview": flag,
    "hosts": lambda value: HOSTS.union(_hosts(value)),
    "requests_per_second": checked(checks.whole(0, _REQUESTS_MAX)),
    "connections": checked(checks.whole(1, _CONNECTIONS_MAX)),
    "connections_of_machine": checked(checks.whole(1, _CONNECTIONS_MAX)),
    "default_machine": _NAME,
}
PORT: dict[str, Read] = {
    "connections": checked(checks.whole(1, _CONNECTIONS_MAX)),
    "connections_of_address": checked(checks.whole(1, _CONNECTIONS_MAX)),
}
CONTROL_PLANE: dict[str, Read] = {
    "ends_at_acceptance": flag,
    "hosts": _arm_hosts,
    **PORT,
}
CONSOLE: dict[str, Read] = {
    "hosts": _hosts,
    "webhook_hosts": _webhook_hosts,
    "tls": flag,
    "certificate": _path,
    "key": _path,
    **PORT,
}
DRIVER: dict[str, Read] = {
    "kind": one_of(DriverKind),
    "program": _command_line,
    "check": _command_line,
    "timeout_seconds": checked(checks.whole(1, _DAY_SECONDS)),
    "grace_seconds": checked(checks.whole(0, _DAY_SECONDS)),
    "boot_seconds": checked(checks.whole(0, _DAY_SECONDS)),
    "uri": _NAME,
    "destination": _NAME,
}
CLUSTER: dict[str, Read] = {
    "staleness_seconds": checked(checks.whole(1, _DAY_SECONDS)),
    "lease_seconds": checked(checks.whole(1, 60)),
}
JOURNAL: dict[str, Read] = {"keep_days": checked(checks.whole(0, _DAYS_MAX))}
OPERATIONS: dict[str, Read] = {"keep_days": checked(checks.whole(0, _DAYS_MAX))}
CLOUD = {setting.name: _PLAIN for setting in fields(CloudSettings)}
