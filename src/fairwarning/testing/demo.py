"""What happens by itself in the fleet of `up --demo`: simulated handlers, and events (O1)."""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import cycle
from math import inf

from fairwarning.core.commands import Command, Maintain, StartRollout
from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.core.model import ImpactKind, Power, Scope
from fairwarning.guest.aio import AsyncScheduledEvents
from fairwarning.guest.events import Document
from fairwarning.metadata.callers import for_machine
from fairwarning.metadata.listeners import open_tcp
from fairwarning.server.wiring import ServerProcess
from fairwarning.service.fleet import Fleet
from fairwarning.service.lookup import MachineLocation, find_machine

log = logging.getLogger(__name__)

_APPROVING = ("batch_0", "api_0", "api_1", "api_2")
_POLLING = ("web_0", "web_1", "web_2", "db_0", "db_1", "mail")
"""Their handlers leave the approval to the user, who may run a handler in the same machine."""
_FIRST_POLL_SECONDS = 20.0  # the service starts without a handler that cannot poll
PREPARE_SECONDS = 5.0  # of the fleet's clock, from the first sight of an event to its approval
_POLL_SECONDS = 1.0  # while an event is prepared; otherwise a long poll waits for a change
_RETRY_SECONDS = 5.0
ROLLOUT = "kernel-update"
_ACTOR = "demo"
_APPROVED_SCOPE = "api/0"  # the handlers of its machines approve
_PENDING = "mail"  # a machine whose handler does not approve; its scope has the same name
_PERIOD_SECONDS = 240.0  # of the fleet's clock, between two events
_LEAST_SECONDS = 10.0  # of real time: a virtual clock may run very fast


class SimulatedHandler:
    """Polls as one machine with the SDK, and approves the events of this machine alone.

    It prepares by the fleet's clock, so it approves nothing while a virtual clock stands still.
    """

    def __init__(
        self, fleet: Fleet, location: MachineLocation, endpoint: str, *, approves: bool
    ) -> None:
        self._fleet = fleet
        self._scope = location.scope
        self._machine = location.machine.name
        self._endpoint = endpoint
        self._approves = approves
        self._ready_at: dict[str, float] = {}  # by event; infinite once it was approved
        self.has_polled = asyncio.Event()

    async def run(self) -> None:
        """Handle events until cancelled."""
        while True:
            try:
                if await self.is_running():
                    await self._watch()
            except FairwarningError as error:
                log.debug("simulated handler of %s: %s; retrying", self._machine, error)
            await asyncio.sleep(_RETRY_SECONDS)

    async def is_running(self) -> bool:
        """Whether the machine exists and runs."""
        locations = await self._fleet.reader.find_machines(scope=self._scope)
        machines = (location.machine for location in locations)
        return any(
            machine.name == self._machine and machine.power is Power.RUNNING for machine in machines
        )

    async def _watch(self) -> None:
        async with AsyncScheduledEvents(self._endpoint, name=self._machine) as client:
            while True:
                preparing = any(ready_at < inf for ready_at in self._ready_at.values())
                document = await client.wait(_POLL_SECONDS if preparing else None)
                self.has_polled.set()
                if self._approves:
                    await self._approve_ready(client, document)

    async def _approve_ready(self, client: AsyncScheduledEvents, document: Document) -> None:
        now = self._fleet.clock.now()
        self._ready_at = {
            event.id: self._ready_at.get(event.id, now + PREPARE_SECONDS)
            for event in document.events
            if not event.started and event.concerns_only(self._machine)
        }
        for event, ready_at in self._ready_at.items():
            if ready_at <= now:
                await client.approve(event)
                self._ready_at[event] = inf


class DemoEvents:
    """Announces events through the fleet, like an operator. What cannot be announced is left out.

    It announces nothing in a scope that has an event or that no machine polls, so an impact always
    has notice and a restart of the service repeats nothing.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._kinds = cycle((ImpactKind.FREEZE, ImpactKind.REBOOT))
        self._turn = 0

    async def begin(self) -> None:
        """Announce the first events: one stays pending, and one is approved after a moment."""
        await self._announce_pending()
        if await self._quiet_scope(_APPROVED_SCOPE):
            rollout = StartRollout(
                rollout=ROLLOUT, scopes=(_APPROVED_SCOPE,), kind=ImpactKind.REBOOT, actor=_ACTOR
            )
            if not await self._submit(rollout):  # an earlier process has started it
                await self._announce_approved()

    async def run(self) -> None:
        """Announce another event now and then until cancelled."""
        while True:
            await self._pause()
            await self._announce_pending()
            await self._announce_approved()

    async def _pause(self) -> None:
        due = asyncio.Event()
        alarm = self._fleet.clock.call_at(self._fleet.clock.now() + _PERIOD_SECONDS, due.set)
        try:
            await asyncio.gather(due.wait(), asyncio.sleep(_LEAST_SECONDS))
        finally:
            alarm.cancel()

    async def _announce_pending(self) -> None:
        scope = await self._quiet_scope(_PENDING)
        if scope:
            await self._maintain(scope, _PENDING, ImpactKind.REDEPLOY)

    async def _announce_approved(self) -> None:
        scope = await self._quiet_scope(_APPROVED_SCOPE)
        if scope:
            machines = tuple(scope.machines)
            await self._maintain(scope, machines[self._turn % len(machines)], next(self._kinds))
            self._turn += 1

    async def _quiet_scope(self, name: str) -> Scope | None:
        """Return the scope if an event can be announced in it and has to wait for nothing."""
        try:
            scope = await self._fleet.reader.read(Scope, name)
        except FairwarningError as error:
            log.debug("demo: %s", error)
            return None
        quiet = scope and scope.enabled and not scope.events and not scope.impacts
        return scope if quiet else None

    async def _maintain(self, scope: Scope, machine: str, kind: ImpactKind) -> None:
        operation = uuid.uuid4().hex
        command = Maintain(
            scope=scope.id, machines=(machine,), operation=operation, kind=kind, actor=_ACTOR
        )
        await self._submit(command)

    async def _submit(self, command: Command) -> bool:
        try:
            await self._fleet.submit(command)
        except FairwarningError as error:
            log.debug("demo: %s", error)
            return False
        return True


@asynccontextmanager
async def running(server: ServerProcess) -> AsyncIterator[None]:
    """Run the demo inside the context, which begins once the handlers poll."""
    async with AsyncExitStack() as stack:
        handlers = [
            await _start(server, stack, name, approves=name in _APPROVING)
            for name in (*_POLLING, *_APPROVING)
        ]
        polls = [
            handler.has_polled.wait()
            for handler in handlers
            if handler and await handler.is_running()
        ]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*polls), _FIRST_POLL_SECONDS)
        events = DemoEvents(server.fleet)
        await events.begin()
        stack.push_async_callback(_stop, asyncio.create_task(events.run(), name="demo events"))
        yield


async def _start(
    server: ServerProcess, stack: AsyncExitStack, name: str, *, approves: bool
) -> SimulatedHandler | None:
    """Start the handler of a machine; None if there is no such machine."""
    try:
        location = await find_machine(server.fleet, name)
    except Refused:
        return None
    endpoint = await _endpoint(server, stack, location)
    handler = SimulatedHandler(server.fleet, location, endpoint, approves=approves)
    stack.push_async_callback(_stop, asyncio.create_task(handler.run(), name=f"demo {name}"))
    return handler


async def _endpoint(server: ServerProcess, stack: AsyncExitStack, location: MachineLocation) -> str:
    """Return the URL of a listener for this machine alone.

    It works on every system, also if machines have no URL because they are identified by their
    source address.
    """
    try:
        sock = open_tcp("127.0.0.1", 0, exact=True)
    except Refused:  # there is only IPv6
        sock = open_tcp("::1", 0, exact=True)
    host, port = sock.getsockname()[:2]
    resolve_key = for_machine(location.scope, location.machine.name)
    listener = await server.server.listen(sock, resolve_key)
    stack.callback(server.server.close, listener)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
