"""The fleet file: the TOML that says which fleet to begin with. docs/fleet-file.md shows it whole.

It becomes commands. What they may hold is decided in `core`; here it is said where it stands.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from fairwarning.core import limits
from fairwarning.core.commands import Command, CreateScope, CreateSet, validate
from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.core.model import (
    Machine,
    Rules,
    ScopeKind,
)
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
    SCALE_SET,
    FleetFileError,
    Given,
    Read,
    at,
    machine,
    members,
    parsed,
    place_of,
    roles,
    table,
    tables,
)

Create = CreateScope | CreateSet

_THERE = frozenset({"Changed", "ScopeExists", "SetExists"})  # what a second creation is refused as


@record
class FleetFile:
    """What a fleet file says: the cloud, and what has to be created in it."""

    cloud: CloudSettings = field(default_factory=CloudSettings)
    endpoint: MetadataSettings = field(default_factory=MetadataSettings)
    control_plane: ArmSettings = field(default_factory=ArmSettings)
    console: ConsoleSettings = field(default_factory=ConsoleSettings)
    driver: DriverSettings = field(default_factory=DriverSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    journal: JournalSettings = field(default_factory=JournalSettings)
    commands: tuple[Create, ...] = ()


@record
class ApplyResult:
    """How many scopes and sets were created, and how many were there before."""

    created: int
    kept: int


def read(text: str, source: str = "fleet file") -> FleetFile:
    """The fleet that `text` describes; each command is valid, and no two want the same name.

    Anything else is `Refused`, and told by `source`, by the place in it and by what is allowed.
    """
    try:
        return _file(parsed(text))
    except FleetFileError as wrong:
        raise Refused("BadFleetFile", f"{source}: {wrong.message}") from None


def _file(raw: object) -> FleetFile:
    given = table(raw, _FILE)
    commands = tuple(_commands(given, given.get("rules", {})))
    return FleetFile(
        cloud=given.get("cloud", CloudSettings()),
        endpoint=given.get("metadata", MetadataSettings()),
        control_plane=ArmSettings(rules=Rules(**given.get("rules", {})), **given.get("arm", {})),
        console=ConsoleSettings(**given.get("console", {})),
        driver=given.get("driver", DriverSettings()),
        cluster=given.get("cluster", ClusterSettings()),
        journal=given.get("journal", JournalSettings()),
        commands=commands,
    )


def entry(kind: str, given: Mapping[str, object]) -> tuple[Create, ...]:
    """What one entry of a fleet file asks for, given as values: `machine`, `scale_set` and so on.

    Anything else is `Refused`, and told by what is allowed.
    """
    try:
        return tuple(_commands({kind: [dict(given)]}, {}))
    except FleetFileError as wrong:
        places = ", ".join(wrong.places[1:])  # the first is the entry itself
        raise Refused("BadEntry", f"{places}: {wrong.what}" if places else wrong.what) from None


def demo() -> FleetFile:
    """The fleet of the demo."""
    from importlib.resources import files  # noqa: PLC0415  (the demo alone needs it)

    return read((files(__package__) / "demo.toml").read_text("utf-8"), "demo.toml")


async def apply(
    fleetfile: FleetFile, submit: Callable[[Command], Awaitable[object]]
) -> ApplyResult:
    """Create what is not there yet. What is there stays, whatever the file says of it now."""
    cloud = fleetfile.cloud
    named = [(command, command.group or cloud.group) for command in fleetfile.commands]
    groups = dict.fromkeys([cloud.group, *(group for _, group in named)])
    await _create([resources.create_group(group, cloud.location) for group in groups], submit)
    created = await _create([resources.create(*one) for one in named], submit)
    return ApplyResult(created=created, kept=len(named) - created)


async def _create(
    commands: Sequence[Command], submit: Callable[[Command], Awaitable[object]]
) -> int:
    """How many of them were not there yet."""
    # All at once, and still in order: the fleet's one writer commits them together.
    results = await asyncio.gather(*map(submit, commands), return_exceptions=True)
    kept = 0
    for result in results:
        if isinstance(result, FairwarningError) and result.code in _THERE:
            kept += 1
        elif isinstance(result, BaseException):
            raise result
    return len(results) - kept


def _driver(given: Given) -> DriverSettings:
    driving = DriverSettings(**given)
    if driving.kind is DriverKind.COMMAND and not driving.program:
        raise FleetFileError("program is missing: the command driver runs it for each impact")
    return driving


# --- Entries ------------------------------------------------------------------------------------


def _scope(kind: ScopeKind, given: Given, machines: list[Machine]) -> CreateScope:
    if not 0 < len(machines) <= limits.SCOPE_MACHINES:
        raise FleetFileError(
            f"must have 1 to {limits.SCOPE_MACHINES} machines, not {len(machines)}"
        )
    return CreateScope(
        scope=given["name"],
        kind=kind,
        machines=tuple(machines),
        group=given.get("group", ""),
        rules=given["rules"],
    )


def _standalone(given: Given) -> Iterator[Create]:
    name = given["name"]
    names = [f"{name}_{n}" for n in range(given["count"])] if "count" in given else [name]
    for key in ("host_name", "address"):
        if "count" in given and key in given:
            raise FleetFileError(f"{key} belongs to one machine, so it cannot be given with count")
    for one in names:
        named = given | {"name": one}
        yield _scope(ScopeKind.STANDALONE, named, [machine(named)])


def _availability_set(given: Given) -> Iterator[Create]:
    machines = given["machines"]
    if isinstance(machines, int):
        machines = [Machine(name=f"{given['name']}_{n}") for n in range(machines)]
    yield _scope(ScopeKind.AVAILABILITY_SET, given, _spread(given, machines))


def _cloud_service(given: Given) -> Iterator[Create]:
    # Each role is spread by itself, so that a domain takes a part of every role.
    roles = given["roles"].items()
    named = [[Machine(name=f"{role}_IN_{n}") for n in range(count)] for role, count in roles]
    machines = [machine for role in named for machine in _spread(given, role)]
    yield _scope(ScopeKind.CLOUD_SERVICE, given, machines)


def _spread(given: Given, machines: Iterable[Machine]) -> list[Machine]:
    updates = given.get("update_domains", limits.UPDATE_DOMAINS)
    faults = given.get("fault_domains", limits.FAULT_DOMAINS)
    return [
        changed(machine, update_domain=n % updates, fault_domain=n % faults)
        for n, machine in enumerate(machines)
    ]


def _scale_set(given: Given) -> Iterator[Create]:
    rest = {key: value for key, value in given.items() if key not in {"name", "terminate_notice"}}
    notice = given.get("terminate_notice", 0)
    yield CreateSet(set=given["name"], terminate_seconds=notice, **rest)


# What may stand in an entry of each kind, what must, and what is made of it.
_ENTRIES: dict[str, tuple[dict[str, Read], str, Callable[[Given], Iterator[Create]]]] = {
    "machine": (ENTRY | MACHINE | COUNT, "name", _standalone),
    "availability_set": (ENTRY | DOMAINS | {"machines": members}, "machines", _availability_set),
    "cloud_service": (ENTRY | DOMAINS | {"roles": roles}, "roles", _cloud_service),
    "scale_set": (ENTRY | KIND | DOMAINS | SCALE_SET, "capacity", _scale_set),
}
_FILE: dict[str, Read] = {
    "cloud": lambda value: CloudSettings(**table(value, CLOUD)),
    "metadata": lambda value: MetadataSettings(**table(value, ENDPOINT)),
    "arm": lambda value: table(value, CONTROL_PLANE),
    "console": lambda value: table(value, CONSOLE),
    "driver": lambda value: _driver(table(value, DRIVER)),
    "cluster": lambda value: ClusterSettings(**table(value, CLUSTER)),
    "journal": lambda value: JournalSettings(**table(value, JOURNAL)),
    "rules": ENTRY["rules"],
    **dict.fromkeys(_ENTRIES, tables),
}


def _commands(given: Given, rules: Given) -> Iterator[Create]:
    taken: dict[tuple[str, str], str] = {}
    for kind in (one for one in given if one in _ENTRIES):  # in the order of the file
        keys, needed, create = _ENTRIES[kind]
        for number, raw in enumerate(given[kind], 1):
            place = place_of(kind, number, raw)
            with at(place):
                entry = table(raw, keys, "name", needed)
                entry["rules"] = Rules(**rules | entry.get("rules", {}))
                for command in create(entry):
                    _claim(command, taken, place)
                    validate(command)
                    yield command


def _claim(command: Create, taken: dict[tuple[str, str], str], place: str) -> None:
    """Names and addresses are somebody's alone in the whole file."""
    for what, value in _claims(command):
        if owner := taken.get((what, value)):
            raise FleetFileError(f"{what} {value!r} is used by {owner} already")
        taken[what, value] = place


def _claims(command: Create) -> Iterator[tuple[str, str]]:
    if isinstance(command, CreateSet):
        yield "the name", command.set
        yield from (("the machine name", f"{command.set}_{n}") for n in range(command.capacity))
        return
    yield "the name", command.scope
    for one in command.machines:
        yield "the machine name", one.name
        if one.address:
            yield "the address", one.address
