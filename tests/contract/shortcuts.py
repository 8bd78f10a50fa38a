"""Short ways to make a fleet, to act on it and to look at it, for the tests of the contract."""

from collections.abc import Iterable

from fairwarning.core.commands import Approve, Cancel, CreateSet, Operate
from fairwarning.core.decision import Did
from fairwarning.core.model import Event, EventStatus, ImpactKind, OperationStatus
from tests.fixtures.fleet import NOON, FleetHarness

MINUTE = 60
HOUR = 3600
DAY = 24 * HOUR


def set_of(harness: FleetHarness, capacity: int, name: str = "web", **settings: object) -> None:
    """A scale set with five minutes of terminate notice, polled by somebody in each group."""
    settings.setdefault("terminate_seconds", 300)
    harness.do(CreateSet(set=name, capacity=capacity, **settings))  # type: ignore[arg-type]
    made = harness.scale_set(name)
    assert made is not None
    for group in made.groups:
        harness.poll(group)


def polled(harness: FleetHarness, *scopes: str, host: str = "") -> None:
    """Standalone machines that ask for their documents."""
    for scope in scopes:
        harness.standalone(scope, host=host)
        harness.poll(scope)


def only(harness: FleetHarness, scope: str) -> Event:
    """The one event of a scope."""
    (event,) = harness.events(scope)
    return event


def of(harness: FleetHarness, scope: str, machine: str) -> Event:
    """The one event of a scope that names a machine."""
    (event,) = [event for event in harness.events(scope) if machine in event.resources]
    return event


def approve(harness: FleetHarness, scope: str, *machines: str) -> None:
    """Approve the events of these machines, or of all."""
    events = [of(harness, scope, machine) for machine in machines] or harness.events(scope)
    harness.do(Approve(scope=scope, events=tuple(event.id for event in events), actor="machine"))


def cancel(harness: FleetHarness, scope: str, machine: str) -> None:
    """Cancel the event of a machine."""
    harness.do(Cancel(scope=scope, event=of(harness, scope, machine).id))


def operate(
    harness: FleetHarness,
    action: type[Operate],
    scope: str,
    *machines: str,
    name: str = "op",
    **more: object,
) -> None:
    """Submit an operation on machines of a scope."""
    harness.do(action(scope=scope, operation=name, machines=machines, **more))  # type: ignore[arg-type]


def shown(harness: FleetHarness, scope: str) -> dict[str, EventStatus]:
    """The status of the event of each machine of a scope that has one."""
    return {name: event.status for event in harness.events(scope) for name in event.resources}


def hits(harness: FleetHarness) -> list[tuple[str, ImpactKind]]:
    """What the driver was given so far."""
    return [(impact.machine, impact.kind) for impact in harness.driver.given]


def hit(harness: FleetHarness) -> list[str]:
    """Whom the driver was told to hit so far."""
    return [impact.machine for impact in harness.driver.given]


def begun(harness: FleetHarness) -> dict[str, float]:
    """How long after noon each machine was (last) hit."""
    return {
        entry.line.fact.machine: entry.line.at - NOON
        for entry in harness.journal()
        if entry.line.fact.did is Did.BEGUN
    }


def told(harness: FleetHarness, *wanted: Did) -> list[Did]:
    """What the journal tells, of these kinds."""
    return [entry.line.fact.did for entry in harness.journal() if entry.line.fact.did in wanted]


def succeeded(harness: FleetHarness, *operations: str) -> bool:
    """Whether all these operations have succeeded."""
    return all(harness.operation(name).status is OperationStatus.SUCCEEDED for name in operations)


def names(prefix: str, ids: Iterable[int]) -> list[str]:
    """Instance names of a set."""
    return [f"{prefix}_{n}" for n in ids]
