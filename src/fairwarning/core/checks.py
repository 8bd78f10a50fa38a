"""Checks for the fields of commands. A check returns what is allowed if a value is not."""

from collections.abc import Mapping
from enum import Enum
from ipaddress import IPv4Network, IPv6Address, ip_address

from fairwarning.core import limits, windows
from fairwarning.core.model import (
    EvictionPolicy,
    Machine,
    Power,
    Priority,
    Rules,
)
from fairwarning.core.record import Check


def _is_unicode(value: str) -> bool:
    """Lone surrogates cannot be stored."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_id(value: object) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= limits.ID_CHARACTERS
        and value.isprintable()  # so the only white space is the blank
        and value[0] != " " != value[-1]
    )


def known(value: object) -> str | None:
    """The name or id of an existing entity."""
    if _is_id(value):
        return None
    return f"an id of 1 to {limits.ID_CHARACTERS} printable characters, no space at its ends"


def name(value: object) -> str | None:
    """A name for a new entity."""
    if not _is_id(value) or len(str(value)) > limits.NAME_CHARACTERS:
        return f"a name of 1 to {limits.NAME_CHARACTERS} printable characters, no space at its ends"
    return (
        "a name other than '.' and '..', which no URL can end with"
        if value in {".", ".."}
        else None
    )


def plain(value: object) -> str | None:
    """A name for a new entity that other names are derived from: without a slash."""
    allowed = name(value)
    return allowed or ("a name without '/'" if "/" in str(value) else None)


def unspaced(value: object) -> str | None:
    """A name for a new machine, scope or set: without a space."""
    allowed = name(value)
    return allowed or ("a name without a space" if " " in str(value) else None)


def entry(value: object) -> str | None:
    """A name for a new machine or set that a user writes: without a slash and without a space."""
    return plain(value) or unspaced(value)


def listed(value: object) -> str | None:
    """A name that appears in comma-separated lists of commands: without a comma."""
    allowed = unspaced(value)
    return allowed or ("a name without ','" if "," in str(value) else None)


def or_empty(inner: Check) -> Check:
    """What `inner` allows, or an empty string."""
    return lambda value: None if value == "" and isinstance(value, str) else inner(value)


optional = or_empty(known)
optional_name = or_empty(name)


def _text(most: int) -> Check:
    """Text of bounded length."""

    def check(value: object) -> str | None:
        if isinstance(value, str) and len(value) <= most and _is_unicode(value):
            return None
        return f"Unicode text of at most {most} characters"

    return check


text = _text(limits.TEXT_CHARACTERS)
body = _text(limits.RESOURCE_CHARACTERS)  # the document of a resource


def resource(value: object) -> str | None:
    """The id of a resource: several names."""
    most = limits.RESOURCE_ID_CHARACTERS
    fits = isinstance(value, str) and 0 < len(value) <= most and value.isprintable()
    return None if fits else f"an id of 1 to {most} printable characters"


optional_resource = or_empty(resource)


def address(value: object) -> str | None:
    """The address of a machine, spelled as the connection of a guest shows it."""
    try:
        parsed = ip_address(value) if isinstance(value, str) else None
    except ValueError:
        parsed = None
    # An IPv4 address has one spelling. Before Python 3.13, ::ffff:10.0.0.4 was not its own text.
    # A connection shows no zone, as in fe80::1%eth0.
    is_odd = isinstance(parsed, IPv6Address) and (parsed.ipv4_mapped or parsed.scope_id)
    fits = parsed is not None and str(parsed) == value and not is_odd
    return None if fits else "an IP address in its usual spelling, as 10.0.0.4 or fd00::4"


def subnet(value: object) -> str | None:
    """The network of a subnet."""
    largest, smallest = limits.SUBNET_PREFIX_MIN, limits.SUBNET_PREFIX_MAX
    try:
        net = IPv4Network(value) if isinstance(value, str) else None
    except ValueError:
        net = None
    if net and str(net) == value and largest <= net.prefixlen <= smallest:
        return None
    return f"an IPv4 network of prefix length {largest} to {smallest}, as 10.0.0.0/24"


def _distinct(inner: Check, least: int, most: int, what: str) -> Check:
    """Different values that `inner` allows, in a tuple."""

    def check(value: object) -> str | None:
        if (
            isinstance(value, tuple)
            and least <= len(value) <= most
            and not any(map(inner, value))
            and len(set(value)) == len(value)
        ):
            return None
        count = f"{least} to {most}" if least else f"at most {most}"
        return f"{count} different {what}"

    return check


def names(most: int) -> Check:
    """Distinct names of existing entities."""
    return _distinct(known, 1, most, "names")


resources = _distinct(resource, 0, limits.FOLLOWING_COMMANDS, "resources")
zones = _distinct(name, 0, limits.SET_INSTANCES, "names of zones")


def commands(value: object) -> str | None:
    """A bounded number of commands; each is validated by itself."""
    if isinstance(value, tuple) and len(value) <= limits.FOLLOWING_COMMANDS:
        return None
    return f"at most {limits.FOLLOWING_COMMANDS} commands"


def whole(least: int, most: int) -> Check:
    """A whole number in a range."""

    def check(value: object) -> str | None:
        if type(value) is int and least <= value <= most:
            return None
        return f"a whole number from {least} to {most}"

    return check


def wholes(most_items: int, most: int) -> Check:
    """Distinct whole numbers from 0."""
    return _distinct(whole(0, most), 1, most_items, f"whole numbers from 0 to {most}")


def one_of(*allowed: object) -> Check:
    """One of these values."""

    def check(value: object) -> str | None:
        if any(value is candidate for candidate in allowed):
            return None
        return "one of " + ", ".join(str(a.value if isinstance(a, Enum) else a) for a in allowed)

    return check


def moment(value: object) -> str | None:
    """A point in time, in seconds since the epoch."""
    if type(value) in {int, float} and 0 <= value < _YEAR_10000:  # type: ignore[operator]
        return None
    return "seconds since the epoch"


def or_none(inner: Check) -> Check:
    """None, or what `inner` allows."""

    def check(value: object) -> str | None:
        return None if value is None else inner(value)

    return check


def terminate(value: object) -> str | None:
    """A terminate notice in seconds, or 0 (T1)."""
    least, most = limits.TERMINATE_MIN_SECONDS, limits.TERMINATE_MAX_SECONDS
    if type(value) is int and (value == 0 or least <= value <= most):
        return None
    return f"0 (no notice) or {least} to {most} seconds (PT5M to PT15M)"


def tags(value: object) -> str | None:
    """The tags of a machine."""
    if (
        isinstance(value, Mapping)
        and len(value) <= limits.TAGS
        and all(_is_id(key) and text(part) is None for key, part in value.items())
    ):
        return None
    return f"at most {limits.TAGS} tags, each a name and a text"


boolean = one_of(False, True)  # noqa: FBT003  (the allowed values themselves)
notice = whole(1, limits.NOTICE_MAX_SECONDS)
duration = whole(limits.UNKNOWN_DURATION, limits.DURATION_MAX_SECONDS)
_YEAR_10000 = 253_402_300_800

date = whole(0, _YEAR_10000 - 1)

RULES: dict[str, Check] = {
    "freeze_seconds": notice,
    "reboot_seconds": notice,
    "redeploy_seconds": notice,
    "preempt_seconds": notice,
    "recommend_seconds": notice,
    "user_operations": whole(1, limits.SCOPE_EVENTS),
    "enable_delay_seconds": whole(0, limits.ENABLE_DELAY_MAX_SECONDS),
    "idle_seconds": whole(60, limits.IDLE_MAX_SECONDS),
    "impact_limit_seconds": whole(1, limits.IMPACT_LIMIT_MAX_SECONDS),
    "approve_reboot": boolean,
    "approve_redeploy": boolean,
    "maintenance_window": windows.check,
}

_MACHINE: dict[str, Check] = {
    "name": listed,
    "host_name": optional_name,
    "host": optional_name,
    "address": or_empty(address),
    "subnet": or_empty(subnet),
    "update_domain": whole(0, limits.UPDATE_DOMAINS_MAX - 1),
    "fault_domain": whole(0, limits.FAULT_DOMAINS_MAX - 1),
    "priority": one_of(*Priority),
    "eviction": one_of(*EvictionPolicy),
    "power": one_of(*Power),
    "terminate_seconds": terminate,
    "instance": one_of(-1),  # set by scale sets only
    "model": one_of(0),
    "protected": boolean,
    "shielded": boolean,
    "resource": one_of(""),  # set by writing a resource only
    "size": optional_name,
    "zone": optional_name,
    "windows": boolean,
    "tags": tags,
}


def parts(kind: type, checks: dict[str, Check]) -> Check:
    """A value of this class whose fields pass their checks."""

    def check(value: object) -> str | None:
        if not isinstance(value, kind):
            return f"a {kind.__name__}"
        for part, inner in checks.items():
            if allowed := inner(getattr(value, part)):
                return f"a {kind.__name__} whose {part} is {allowed}"
        return None

    return check


machine = parts(Machine, _MACHINE)


def machines(value: object) -> str | None:
    """Machines for a scope."""
    if value == ():
        return f"1 to {limits.SCOPE_MACHINES} machines"
    return first_machines(value)


def first_machines(value: object) -> str | None:
    """Machines for a new scope; some kinds may be empty."""
    if not isinstance(value, tuple) or len(value) > limits.SCOPE_MACHINES:
        return f"at most {limits.SCOPE_MACHINES} machines"
    for entry in value:
        if allowed := machine(entry):
            return allowed
    names = {entry.name for entry in value}
    addresses = [entry.address for entry in value if entry.address]
    if len(names) < len(value) or len(set(addresses)) < len(addresses):
        return "machines with different names and addresses"
    return None


instances = wholes(limits.SET_INSTANCES, 36**6 - 1)
rules = parts(Rules, RULES)
