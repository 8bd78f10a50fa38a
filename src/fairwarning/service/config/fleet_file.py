"""The fleet file: the TOML that describes the initial fleet. docs/fleet-file.md shows every key.

It is turned into commands. `core` validates their values; this module adds the place in the file.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from fairwarning.core import limits
from fairwarning.core.commands import Command, CreateScope, CreateSet, Write, validate
from fairwarning.core.configuration import (
    ConfigurationError,
    Read,
    Table,
    at,
    parse_toml,
    place_of,
    table,
    tables,
)
from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.core.model import Machine, Rules, ScopeKind
from fairwarning.core.record import changed, record
from fairwarning.service import resources
from fairwarning.service.config.settings import (
    ArmSettings,
    CloudSettings,
    ClusterSettings,
    ConsoleSettings,
    DriverKind,
    DriverSettings,
    JournalSettings,
    MetadataSettings,
    OperationSettings,
)
from fairwarning.service.config.values import (
    CLOUD,
    CLUSTER,
    CONSOLE,
    CONTROL_PLANE,
    COUNT,
    DOMAINS,
    DRIVER,
    ENDPOINT,
    ENTRY,
    JOURNAL,
    KIND,
    MACHINE,
    OPERATIONS,
    SCALE_SET,
    machine,
    members,
    roles,
)

Create = CreateScope | CreateSet

_EXISTS = frozenset({"Changed", "ScopeExists", "SetExists"})  # error codes of a second creation


@record
class FleetFile:
    """The contents of a fleet file: settings, and commands that create the fleet."""

    cloud: CloudSettings = field(default_factory=CloudSettings)
    endpoint: MetadataSettings = field(default_factory=MetadataSettings)
    control_plane: ArmSettings = field(default_factory=ArmSettings)
    console: ConsoleSettings = field(default_factory=ConsoleSettings)
    driver: DriverSettings = field(default_factory=DriverSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    journal: JournalSettings = field(default_factory=JournalSettings)
    operations: OperationSettings = field(default_factory=OperationSettings)
    commands: tuple[Create, ...] = ()


@record
class ApplyResult:
    """How many scopes and sets were created, and how many existed already."""

    created: int
    kept: int


def read(text: str, source: str = "fleet file") -> FleetFile:
    """Read a fleet file. Every command is valid, and no two use the same name.

    Raise `Refused` on an error; its text has `source`, the place in it and the allowed values.
    """
    try:
        return _file(parse_toml(text))
    except ConfigurationError as error:
        raise Refused("BadFleetFile", f"{source}: {error.message}") from None


def _file(raw: object) -> FleetFile:
    file = table(raw, _FILE)
    commands = tuple(_commands(file, file.get("rules", {})))
    return FleetFile(
        cloud=file.get("cloud", CloudSettings()),
        endpoint=file.get("metadata", MetadataSettings()),
        control_plane=ArmSettings(rules=Rules(**file.get("rules", {})), **file.get("arm", {})),
        console=file.get("console", ConsoleSettings()),
        driver=file.get("driver", DriverSettings()),
        cluster=file.get("cluster", ClusterSettings()),
        journal=file.get("journal", JournalSettings()),
        operations=file.get("operations", OperationSettings()),
        commands=commands,
    )


def entry(kind: str, values: Mapping[str, object]) -> tuple[Create, ...]:
    """Return the commands for one entry of a kind (`machine`, `scale_set` and so on).

    Raise `Refused` on an error; its text has the allowed values.
    """
    try:
        return tuple(_commands({kind: [dict(values)]}, {}))
    except ConfigurationError as error:
        places = ", ".join(error.places[1:])  # the first is the entry itself
        raise Refused("BadEntry", f"{places}: {error.what}" if places else error.what) from None


def sample() -> FleetFile:
    """Return the sample fleet."""
    return _bundled("sample.toml")


def demo() -> FleetFile:
    """Return the fleet of the demo: the sample fleet, and machines on which something happens."""
    fleet = sample()
    return changed(fleet, commands=fleet.commands + _bundled("demo.toml").commands)


def _bundled(name: str) -> FleetFile:
    return read((Path(__file__).parent / name).read_text("utf-8"), name)


async def apply(
    fleetfile: FleetFile, submit: Callable[[Command], Awaitable[object]]
) -> ApplyResult:
    """Create the scopes and sets that do not exist yet; leave the existing ones unchanged."""
    cloud = fleetfile.cloud
    commands = [
        (command, command.group or cloud.group)
        for command in _given_addresses_first(fleetfile.commands)
    ]
    groups = dict.fromkeys([cloud.group, *(group for _, group in commands)])
    await _create([resources.create_group(group, cloud.location) for group in groups], submit)
    created = await _create(
        [resources.create(command, group) for command, group in commands], submit
    )
    return ApplyResult(created=created, kept=len(commands) - created)


def _given_addresses_first(commands: Sequence[Create]) -> Sequence[Create]:
    """Put entries with addresses first, so that no other machine is given one of them."""
    if not any(_has(command, "subnet") for command in commands):
        return commands
    return sorted(commands, key=lambda command: not _has(command, "address"))


def _has(command: Create, field_name: str) -> bool:
    """Whether a machine of this command has a value for this field."""
    machines = command.machines if isinstance(command, CreateScope) else (command,)
    return any(getattr(machine, field_name, "") for machine in machines)


async def _create(
    commands: Sequence[Command], submit: Callable[[Command], Awaitable[object]]
) -> int:
    """Submit the commands; return how many created something."""
    # Concurrent but in order: the fleet's single writer commits them together.
    results = await asyncio.gather(*map(submit, commands), return_exceptions=True)
    kept = 0
    for result in results:
        if isinstance(result, FairwarningError) and result.code in _EXISTS:
            kept += 1
        elif isinstance(result, BaseException):
            raise result
    return len(results) - kept


def _console(values: Table) -> ConsoleSettings:
    settings = ConsoleSettings(**values)
    if settings.key and not settings.certificate:
        raise ConfigurationError("certificate is missing: key is the path of its key")
    if settings.certificate and values.get("tls") is False:
        raise ConfigurationError("tls must be true with a certificate; leave out one of the two")
    return settings


def _driver(values: Table) -> DriverSettings:
    settings = DriverSettings(**values)
    if settings.kind is DriverKind.COMMAND and not settings.program:
        raise ConfigurationError("program is missing: the command driver runs it for each impact")
    return settings


# --- Entries ------------------------------------------------------------------------------------


def _scope(kind: ScopeKind, entry: Table, machines: list[Machine]) -> CreateScope:
    if not 0 < len(machines) <= limits.SCOPE_MACHINES:
        raise ConfigurationError(
            f"must have 1 to {limits.SCOPE_MACHINES} machines, not {len(machines)}"
        )
    return CreateScope(
        scope=entry["name"],
        kind=kind,
        machines=tuple(_in_subnet(machine, entry) for machine in machines),
        group=entry.get("group", ""),
        rules=entry["rules"],
    )


def _in_subnet(machine: Machine, entry: Table) -> Machine:
    """The machine in its own subnet, or in that of its entry."""
    return changed(machine, subnet=machine.subnet or entry.get("subnet", ""))


def _standalone(entry: Table) -> Iterator[Create]:
    prefix = entry["name"]
    names = [f"{prefix}_{n}" for n in range(entry["count"])] if "count" in entry else [prefix]
    for key in ("host_name", "address"):
        if "count" in entry and key in entry:
            raise ConfigurationError(
                f"{key} belongs to one machine, so it cannot be given with count"
            )
    for name in names:
        named = entry | {"name": name}
        yield _scope(ScopeKind.STANDALONE, named, [machine(named)])


def _availability_set(entry: Table) -> Iterator[Create]:
    machines = entry["machines"]
    if isinstance(machines, int):
        machines = [Machine(name=f"{entry['name']}_{n}") for n in range(machines)]
    yield _scope(ScopeKind.AVAILABILITY_SET, entry, _spread(entry, machines))


def _cloud_service(entry: Table) -> Iterator[Create]:
    # Spread each role separately, so that every domain has a part of every role.
    roles = [
        [Machine(name=f"{role}_IN_{n}") for n in range(count)]
        for role, count in entry["roles"].items()
    ]
    machines = [machine for role in roles for machine in _spread(entry, role)]
    yield _scope(ScopeKind.CLOUD_SERVICE, entry, machines)


def _spread(entry: Table, machines: Iterable[Machine]) -> list[Machine]:
    """Spread machines over the update and fault domains."""
    updates = entry.get("update_domains", limits.UPDATE_DOMAINS)
    faults = entry.get("fault_domains", limits.FAULT_DOMAINS)
    return [
        changed(machine, update_domain=n % updates, fault_domain=n % faults)
        for n, machine in enumerate(machines)
    ]


def _scale_set(entry: Table) -> Iterator[Create]:
    rest = {key: value for key, value in entry.items() if key not in {"name", "terminate_notice"}}
    notice = entry.get("terminate_notice", 0)
    yield CreateSet(set=entry["name"], terminate_seconds=notice, **rest)


# For each kind of entry: the allowed keys, a required key, and the function that makes commands.
_ENTRIES: dict[str, tuple[dict[str, Read], str, Callable[[Table], Iterator[Create]]]] = {
    "machine": (ENTRY | MACHINE | COUNT, "name", _standalone),
    "availability_set": (
        ENTRY | DOMAINS | {"machines": members},
        "machines",
        _availability_set,
    ),
    "cloud_service": (ENTRY | DOMAINS | {"roles": roles}, "roles", _cloud_service),
    "scale_set": (ENTRY | KIND | DOMAINS | SCALE_SET, "capacity", _scale_set),
}
_FILE: dict[str, Read] = {
    "cloud": lambda value: CloudSettings(**table(value, CLOUD)),
    "metadata": lambda value: MetadataSettings(**table(value, ENDPOINT)),
    "arm": lambda value: table(value, CONTROL_PLANE),
    "console": lambda value: _console(table(value, CONSOLE)),
    "driver": lambda value: _driver(table(value, DRIVER)),
    "cluster": lambda value: ClusterSettings(**table(value, CLUSTER)),
    "journal": lambda value: JournalSettings(**table(value, JOURNAL)),
    "operations": lambda value: OperationSettings(**table(value, OPERATIONS)),
    "rules": ENTRY["rules"],
    **dict.fromkeys(_ENTRIES, tables),
}


def _commands(file: Table, rules: Table) -> Iterator[Create]:
    used: dict[tuple[str, str], str] = {}
    resource_names: dict[str, tuple[str, str]] = {}
    group = file.get("cloud", CloudSettings()).group
    for kind in (key for key in file if key in _ENTRIES):  # in the order of the file
        keys, required, create = _ENTRIES[kind]
        for number, raw in enumerate(file[kind], 1):
            place = place_of(kind, number, raw)
            with at(place):
                entry = table(raw, keys, "name", required)
                entry["rules"] = Rules(**rules | entry.get("rules", {}))
                for command in create(entry):
                    _check_unique(command, used, place)
                    _check_resources(command, command.group or group, resource_names, place)
                    validate(command)
                    yield command


def _check_unique(command: Create, used: dict[tuple[str, str], str], place: str) -> None:
    """Refuse a name or address that another entry of the file uses."""
    for what, value in _unique_values(command):
        if other := used.get((what, value)):
            raise ConfigurationError(f"{what} {value!r} is already used by {other}")
        used[what, value] = place


def _check_resources(
    command: Create, group: str, used: dict[str, tuple[str, str]], place: str
) -> None:
    """Refuse a name that differs only in case from another one of its kind and group.

    The two would be one resource, so one of them would not be created, or not be found.
    """
    write = resources.create(command, group)
    for created in (write, *write.follow):
        if isinstance(created, Write):
            name, other = used.setdefault(created.resource, (created.name, place))
            if name != created.name:
                raise ConfigurationError(
                    f"the name {created.name!r} differs from {name!r} of {other} only in case, and"
                    " a resource group does not tell them apart; choose another name"
                )


def _unique_values(command: Create) -> Iterator[tuple[str, str]]:
    if isinstance(command, CreateSet):
        yield "the name", command.set
        yield from (("the machine name", f"{command.set}_{n}") for n in range(command.capacity))
        return
    yield "the name", command.scope
    for created in command.machines:
        yield "the machine name", created.name
        if created.address:
            yield "the address", created.address
