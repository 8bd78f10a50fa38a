"""What the parts of the API share: the fleet, pages, and how settings are read."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from fairwarning.console.api import bodies, responses, views
from fairwarning.core.commands import Command
from fairwarning.core.errors import NotFound, Refused
from fairwarning.core.model import ImpactKind, Operation, Scope
from fairwarning.service.config.settings import CloudSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.history import queries
from fairwarning.service.lookup import MachineLocation

Settings = Mapping[str, Any]
"""What somebody wants, as JSON or as a form has it."""

OPERATOR = "operator"
PAGE = 100  # of a list, unless asked for otherwise
MOST = 1000

B = TypeVar("B", bound=bodies.Body)


class ApiSection:
    """Speaks to the fleet for somebody, whom the journal calls `actor`."""

    def __init__(self, fleet: Fleet, cloud: CloudSettings) -> None:
        self.fleet = fleet
        self.cloud = cloud

    async def _scope(self, name: str) -> Scope:
        scope = await self.fleet.reader.read(Scope, name)
        if scope is None:
            raise NotFound("UnknownScope", f"there is no scope {name[:60]!r}")
        return scope

    async def _shown(self, places: Iterable[MachineLocation]) -> list[responses.MachineInfo]:
        """Those that are still there: a machine may go at any moment."""
        shown = [(one, await self.fleet.reader.read(Scope, one.scope)) for one in places]
        return [views.machine(one, scope) for one, scope in shown if scope]

    async def _repeat(
        self, key: str, groups: tuple[str, ...] = ()
    ) -> responses.AcceptedOperation | None:
        """What was answered to this key before, as it is now; None if it is new (IC2).

        It may be about these groups of a set, although nothing was done to their machines.
        """
        known = await self.fleet.reader.read(Operation, key) if key else None
        if known is None:
            return None
        scopes = {scope.id: scope for scope in await queries.operation_scopes(self.fleet, key)}
        for name in groups:
            if scope := await self.fleet.reader.read(Scope, name):
                scopes[name] = scope
        return _accepted(known, scopes.values())

    async def _accept(
        self, command: Command, scopes: tuple[str, ...]
    ) -> responses.AcceptedOperation:
        """Have it decided; what it announced is in these scopes."""
        operation = await self.fleet.submit(command)
        assert operation is not None
        read = [await self.fleet.reader.read(Scope, name) for name in scopes]
        newest = await self.fleet.reader.read(Operation, operation.id)
        return _accepted(newest or operation, [scope for scope in read if scope])


def _accepted(operation: Operation, scopes: Iterable[Scope]) -> responses.AcceptedOperation:
    scopes = list(scopes)
    events = [
        views.event(event, scope.id)
        for scope in scopes
        for event in scope.events.values()
        if event.operation == operation.id
    ]
    polled = any(scope.enabled for scope in scopes)
    return responses.AcceptedOperation(
        operation=views.operation(operation), events=events, polled=polled
    )


def name_of(key: str) -> str:
    """What an operation is called: as whoever asks wishes, so that a repeat is known (IC2)."""
    return key or uuid.uuid4().hex


def read(kind: type[B], settings: Settings) -> B:
    """The settings in their shape; what is not allowed is refused, and said so."""
    try:
        return msgspec.convert(settings, kind)
    except msgspec.ValidationError as error:
        known = ", ".join(kind.__struct_fields__) or "none"
        raise Refused("BadBody", f"{error}; the settings are: {known}") from None


def one_of(value: str, known: Mapping[str, Any], what: str) -> Any:  # noqa: ANN401  (its value)
    """What a word stands for."""
    if value not in known:
        words = ", ".join(known)
        raise NotFound(
            f"Unknown{what.title()}", f"there is no {what} {value[:40]!r}; it is {words}"
        )
    return known[value]


def work(value: str) -> ImpactKind:
    """What maintenance does, by its word."""
    for kind in (ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY):
        if value == kind.value:
            return kind
    raise Refused("BadBody", f"kind must be freeze, reboot or redeploy, not {value[:40]!r}")
