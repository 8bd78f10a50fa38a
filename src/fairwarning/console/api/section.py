"""A section of the API: what its methods use, dry runs, page sizes, and parsing of settings."""

import asyncio
import json
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import sha256
from heapq import nlargest, nsmallest
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from fairwarning.console.api import bodies, responses, views
from fairwarning.console.readers import READER, FindUrls, Reader, no_urls
from fairwarning.console.shutdown import ShutdownSignal
from fairwarning.core import cascade
from fairwarning.core.cascade import EntityNotLoaded, Outcome
from fairwarning.core.commands import Command, validate
from fairwarning.core.errors import Bug, FairwarningError, NotFound, Refused, key_reused
from fairwarning.core.model import (
    Entity,
    Event,
    ImpactKind,
    Operation,
    Ref,
    ScaleSet,
    Scope,
)
from fairwarning.service.config.settings import CloudSettings, ConsoleSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.health import HealthSource
from fairwarning.service.history import queries
from fairwarning.service.issued_tokens import IssuedTokens
from fairwarning.service.listing.index import FleetIndex
from fairwarning.service.listing.recent import RecentHistory
from fairwarning.service.lookup import MachineLocation, find_machine
from fairwarning.service.metrics import Metric

if TYPE_CHECKING:
    from fairwarning.service.webhooks.webhooks import WebhookService

log = logging.getLogger(__name__)

Settings = Mapping[str, Any]
"""The members of a JSON body, or the fields of a form."""

OPERATOR = "operator"
PAGE_SIZE = 100  # entries in a page of a list, by default
MAX_PAGE_SIZE = 1000
_AT_ONCE = 5  # entities that a command may concern to be decided on the event loop
_REQUEST_CHARACTERS = 300
_NAME_CHARACTERS = 60  # of an unknown name, for a suggestion
_SUGGESTED_FROM = 10_000  # names: looking at them takes a few milliseconds
_NEIGHBORS = 25  # names before and after an unknown one, and names that end like it

B = TypeVar("B", bound=bodies.Body)


@dataclass(frozen=True)
class ConsoleParts:
    """The objects and settings that a console is built from."""

    fleet: Fleet
    metrics: Callable[[], Iterable[Metric]]
    tokens: IssuedTokens
    webhooks: Callable[[], Awaitable["WebhookService"]]  # which is loaded on first use
    closing: ShutdownSignal
    key: str  # in the login link
    health: HealthSource = tuple  # of the parts beside the fleet
    cloud: CloudSettings = field(default_factory=CloudSettings)
    settings: ConsoleSettings = field(default_factory=ConsoleSettings)
    machine_urls: FindUrls = no_urls
    metadata: str = ""  # the URL of the metadata endpoint
    arm: str = ""  # that of the Azure Resource Manager API
    ca: str = ""  # PEM, of the latter


class ApiSection:
    """A group of API methods over one fleet. The journal records `actor` as their caller."""

    def __init__(self, parts: ConsoleParts) -> None:
        self.parts = parts
        self.fleet = parts.fleet
        self.index = FleetIndex(parts.fleet)
        self.recent = RecentHistory(parts.fleet)

    async def _scope(self, name: str) -> Scope:
        """Return a scope; the error for an unknown name suggests the most similar one."""
        scope = await self.fleet.reader.read(Scope, name)
        if scope is None:
            await self.index.refresh()
            error = NotFound("UnknownScope", f"there is no scope {name[:60]!r}")
            raise with_suggestion(error, name, self.index.scopes)
        return scope

    async def _find_machine(self, name: str) -> MachineLocation:
        """Return a machine; the error for an unknown name suggests the most similar one."""
        try:
            return await find_machine(self.fleet, name)
        except NotFound as error:
            await self.index.refresh()
            names = chain.from_iterable(scope.machines for scope in self.index.scopes.values())
            raise with_suggestion(error, name, names) from None

    async def _check_names(self, scope: str, set_: str) -> None:
        """Raise `NotFound` if a filter names a scope or a set that does not exist."""
        if scope:
            await self._scope(scope)
        if set_:
            await self._scale_set(set_)

    async def _scale_set(self, name: str) -> ScaleSet:
        """Return a scale set; the error for an unknown name suggests the most similar one."""
        scale_set = await self.fleet.reader.read(ScaleSet, name)
        if scale_set is None:
            error = NotFound("UnknownSet", f"there is no scale set {name[:60]!r}")
            names = await self.fleet.reader.list_ids(ScaleSet, "", MAX_PAGE_SIZE)
            raise with_suggestion(error, name, names)
        return scale_set

    async def describe_machines(
        self, locations: Sequence[MachineLocation]
    ) -> list[responses.MachineInfo]:
        """Describe machines, leaving out those whose scope was deleted in the meantime."""
        refs: list[Ref] = [(Scope, name) for name in {location.scope for location in locations}]
        scopes = await self.fleet.reader.read_all(refs)
        urls = await self._urls(locations)
        known = [
            (location, scope, url)
            for location, url in zip(locations, urls, strict=True)
            if isinstance(scope := scopes[Scope, location.scope], Scope)
        ]
        return await self.fleet.reader.share.map(lambda each: views.machine_info(*each), known)

    async def _urls(self, locations: Sequence[MachineLocation]) -> list[str | None]:
        """Return the URL of each machine that answers the reader of this response (M22)."""
        return await self.parts.machine_urls(locations, READER.get(Reader()))

    async def _repeated(
        self, key: str, request: str, groups: tuple[str, ...] = ()
    ) -> responses.AcceptedOperation | None:
        """Return the operation with this idempotency key; None if the key is new (IC2).

        Raises `Conflict` if the key is that of another request (E9). The response also covers these
        placement groups of a set, even if the operation changed none of their machines.
        """
        operation = await self._known(key, request)
        if operation is None:
            return None
        scopes = {scope.id: scope for scope in await queries.operation_scopes(self.fleet, key)}
        for name in groups:
            if scope := await self.fleet.reader.read(Scope, name):
                scopes[name] = scope
        return _accepted(operation, scopes.values())

    async def _known(self, key: str, request: str) -> Operation | None:
        """What an earlier request with this key started, if it asked for the same (E9)."""
        known = await self.fleet.reader.read(Operation, key) if key else None
        if known and known.request and known.request != request:
            raise key_reused(known.id, known.request, request)
        return known

    async def _submit(
        self, command: Command, scopes: tuple[str, ...]
    ) -> responses.AcceptedOperation:
        """Submit a command, and return its operation with the events it made in these scopes."""
        operation = await self.fleet.submit(command)
        assert operation is not None
        changed = [await self.fleet.reader.read(Scope, name) for name in scopes]
        newest = await self.fleet.reader.read(Operation, operation.id)
        return _accepted(newest or operation, [scope for scope in changed if scope])


def with_suggestion(error: NotFound, name: str, names: Iterable[str]) -> NotFound:
    """Return the error with the name that is most similar to the unknown one, if any is.

    Comparing with each name would take too long. A typo leaves the first or the second half of a
    name as it is, so the name that was meant sorts near it or ends like it.
    """
    name = name[:_NAME_CHARACTERS]
    ending = name[len(name) // 2 :]
    known = list(islice(names, _SUGGESTED_FROM))
    candidates = [
        *nlargest(_NEIGHBORS, (each for each in known if each < name)),
        *nsmallest(_NEIGHBORS, (each for each in known if each > name)),
        *islice((each for each in known if each.endswith(ending)), _NEIGHBORS),
    ]
    nearest = get_close_matches(name, candidates, 1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    return NotFound(error.code, f"{error.message}{hint}")


def _accepted(operation: Operation, scopes: Iterable[Scope]) -> responses.AcceptedOperation:
    scopes = list(scopes)
    events = [
        views.event_info(event, scope.id)
        for scope in scopes
        for event in scope.events.values()
        if event.operation == operation.id
    ]
    polled = any(scope.enabled for scope in scopes)
    return responses.AcceptedOperation(
        operation=views.operation_info(operation), events=events, polled=polled
    )


async def decide(fleet: Fleet, command: Command, now: float) -> Outcome:
    """Return the outcome of a command without committing it; raises as submitting it would."""
    loaded: dict[Ref, Entity | None] = {}

    def get(ref: Ref) -> Entity | None:
        if ref not in loaded:
            raise EntityNotLoaded(ref)
        return loaded[ref]

    validate(command)
    while True:
        try:
            if len(loaded) <= _AT_ONCE:
                return cascade.run(command, now, get)
            return await asyncio.to_thread(cascade.run, command, now, get)  # it takes long
        except EntityNotLoaded as missing:
            loaded |= await fleet.reader.read_all([missing.ref])
        except FairwarningError:
            raise
        except Exception as error:
            log.exception("cannot find out what %s would do", type(command).__name__)
            raise Bug(
                "because of a bug in the service, it is unknown what this would do"
            ) from error


def created_events(outcome: Outcome) -> list[Event]:
    """Return the events that an outcome adds."""
    return [
        event
        for before, after in outcome.changes.values()
        if isinstance(after, Scope)
        for event in after.events.values()
        if not isinstance(before, Scope) or event.id not in before.events
    ]


def request_text(what: str, body: bodies.Body) -> str:
    """Return what a caller asks for, to compare it with a repeat. A long text ends in a hash."""
    settings = bodies.set_fields(body)
    text = f"{what} {json.dumps(settings, sort_keys=True, default=str)}" if settings else what
    if len(text) <= _REQUEST_CHARACTERS:
        return text
    return f"{text[:_REQUEST_CHARACTERS]}... {sha256(text.encode()).hexdigest()}"


def operation_id(key: str) -> str:
    """Return the idempotency key, or a new id: repeats are recognised by the key (IC2)."""
    return key or uuid.uuid4().hex


def parse(body: type[B], settings: Settings) -> B:
    """Convert settings to a request body; the error lists the allowed settings."""
    try:
        return msgspec.convert(settings, body)
    except msgspec.ValidationError as error:
        allowed = ", ".join(body.__struct_fields__) or "none"
        raise Refused("BadBody", f"{error}; the settings are: {allowed}") from None


def choose(value: str, choices: Mapping[str, Any], what: str) -> Any:  # noqa: ANN401  (its value)
    """Return the choice with this name; the error lists all names."""
    if value not in choices:
        names = ", ".join(choices)
        raise NotFound(
            f"Unknown{what.title()}", f"there is no {what} {value[:40]!r}; use one of {names}"
        )
    return choices[value]


def maintenance_kind(value: str) -> ImpactKind:
    """Return the impact of maintenance by its name."""
    for kind in (ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY):
        if value == kind.value:
            return kind
    raise Refused("BadBody", f"kind must be freeze, reboot or redeploy, not {value[:40]!r}")
