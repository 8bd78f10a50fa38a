"""The whole service in one process: store, fleet, driver, metadata endpoint, console and ARM."""

import asyncio
import logging
import math
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from fairwarning.console.readers import Reader
from fairwarning.core.errors import NotFound, Refused
from fairwarning.core.model import Machine
from fairwarning.machines.process.driver import ProcessDriver
from fairwarning.metadata.callers import for_machine
from fairwarning.metadata.server import MetadataServer
from fairwarning.server import data_folder, keys, start_token
from fairwarning.server.drivers import CloseableDriver, driver_for, driver_health
from fairwarning.server.machine_listeners import MachineListeners
from fairwarning.server.machine_sockets import MachineSockets
from fairwarning.server.operator_ports import OperatorPorts
from fairwarning.server.options import ServerOptions
from fairwarning.server.progress import STEP_SECONDS, StartStep
from fairwarning.server.reach import Reach, url_of
from fairwarning.server.ready import OPERATOR, ReadyLine, write_ready
from fairwarning.service.clock import Clock, RealClock, VirtualClock
from fairwarning.service.config import fleet_file
from fairwarning.service.config.fleet_file import ApplyResult
from fairwarning.service.config.settings import TENANT
from fairwarning.service.fleet import Fleet
from fairwarning.service.guest_addresses import GuestAddresses, GuestFinder
from fairwarning.service.issued_tokens import IssuedTokens
from fairwarning.service.lookup import find_machine
from fairwarning.service.retention import Retention
from fairwarning.service.tokens import Tokens, TokenUse

log = logging.getLogger(__name__)

_UNIX_SOCKETS = hasattr(socket, "AF_UNIX")  # `exec` attaches through one
_PAGE = 1000  # machines read at once


class ServerProcess:
    """The wired parts; `running` starts them in order and stops them in reverse order."""

    applied: ApplyResult

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        if not (options.memory or options.database or options.network_folder):
            data_folder.refuse_network(options.data)
        data_folder.check_access(options.data)
        now = float(int(RealClock().now()))  # whole seconds, like NotBefore
        self.clock: Clock = VirtualClock(now) if options.virtual else RealClock()
        self.driver = driver_for(options.fleet.driver, self.clock, options.data)
        # A program is attached to one process, so impacts on it must run in that process.
        self.programs = (
            ProcessDriver(
                self.driver,
                self._find,
                self._open_listener,
                options.data,
                later=lambda seconds, call: self.clock.call_at(self.clock.now() + seconds, call),
                boot_seconds=options.fleet.driver.boot_seconds,
            )
            if _UNIX_SOCKETS and not options.database
            else None
        )
        self.fleet = Fleet(options.store(), self.clock, self.programs or self.driver)
        if self.fleet.following:
            self.fleet.following.staleness_seconds = options.fleet.cluster.staleness_seconds
            self.fleet.following.all_scopes = options.sockets is not None
        settings = options.metadata_settings()
        self.server = MetadataServer(self.fleet, options.fleet.cloud, settings)
        self.reach = Reach(
            options.metadata[0], options.machine_ports, settings.default_machine, self.fleet
        )
        if isinstance(self.driver, GuestFinder):
            self.server.callers.find_guest = GuestAddresses(self.fleet, self.driver).find
        self.ports = OperatorPorts(options, self.fleet, self.server, self.reach)
        self.ports.parts.append(partial(driver_health, self.driver))
        step = StartStep("its folder and ports")
        self.start_step: StartStep | None = step  # None once the service serves
        self._renewal: asyncio.Task[None] | None = None
        self._leftovers: list[Callable[[], None]] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator["ServerProcess"]:
        """Run the service inside the context."""
        options = self.options
        async with AsyncExitStack() as stack:
            if not options.worker:
                lock = data_folder.lock(options.data, memory=options.memory)
                self._leftovers.append(stack.enter_context(lock))
            metadata = self.reach.open_endpoint(options.metadata[1], shared=options.worker)
            stack.enter_context(metadata)
            self.ports.open(stack)
            # A database limits each of its waits, and no migration that it works on.
            limit = math.inf if options.database else STEP_SECONDS
            self.start_step = StartStep("the store to open", limit)
            await self.fleet.start()
            stack.push_async_callback(self.fleet.stop)
            if isinstance(self.driver, CloseableDriver):
                stack.push_async_callback(self.driver.close)
            self.start_step = StartStep("the fleet file to be applied")
            self.applied = await fleet_file.apply(options.fleet, self.fleet.submit)
            # Closing a program or a socket aborts its requests, so the server answers them before.
            if self.programs:
                stack.push_async_callback(self.programs.close)
                self._leftovers.insert(0, self.programs.remove_files)
            machine_listeners = self._machine_listeners()
            for listeners in machine_listeners:
                stack.callback(listeners.close_all)
                self._leftovers.insert(0, listeners.remove_files)
            stack.push_async_callback(self.ports.close)
            self.ports.reserve_descriptors()
            await self.server.listen(metadata, self.reach.resolver)
            self.start_step = StartStep("the keys")
            key = await keys.prepare(
                options.data, self.ports.authority, self.fleet.store, memory=options.memory
            )
            self.tokens = IssuedTokens(Tokens(key, TENANT), self.fleet)
            await self.tokens.refresh()
            self.start_step = StartStep("the listeners")
            if self.programs:
                await self.programs.listen()
            for listeners in machine_listeners:
                await listeners.open_all()
            await self._check_default_machine()
            await self.ports.serve(self.tokens, stack)
            self._start_tasks(stack)
            self.start_step = None
            yield self

    def _start_tasks(self, stack: AsyncExitStack) -> None:
        """Start what runs in the background until the service stops."""
        file = self.options.fleet
        retention = Retention(self.fleet, file.journal, file.operations)
        self.ports.parts.append(retention.health)
        tokens = (self.tokens.follow(), self.tokens.run_expiry())
        for work in (self.ports.renew_certificates(), retention.run(), *tokens):
            stack.callback(asyncio.create_task(work).cancel)
        stack.callback(lambda: self._renewal and self._renewal.cancel())

    def remove_files(self) -> None:
        """Remove what tells others that the service runs; the process ends without `running`."""
        for remove in self._leftovers:
            remove()

    def _machine_listeners(self) -> list[MachineListeners[str] | MachineListeners[int]]:
        """Return the listeners that each machine has for itself."""
        folder = self.options.sockets
        sockets = MachineSockets(folder, self.server, self.fleet) if folder else None
        ports = self.reach.machine_ports(self.server, shared=self.options.worker)
        return [listeners for listeners in (sockets, ports) if listeners]

    async def _check_default_machine(self) -> None:
        """Warn if the default machine does not exist; it may be created later."""
        if name := self.server.settings.default_machine:
            try:
                await find_machine(self.fleet, name)
            except (NotFound, Refused) as error:
                log.warning(
                    "no default machine: %s; until there is one, callers get 404", error.message
                )

    # --- Addresses ---

    async def announce(self) -> ReadyLine:
        """Write the addresses to up.json and return them; renew the start token from now on."""
        ready = await self._ready()
        folder = self.options.data
        write_ready(folder, ready)
        self._renewal = asyncio.create_task(
            start_token.renew(folder, ready, self.tokens, self._ready)
        )
        return ready

    async def _ready(self) -> ReadyLine:
        options = self.options
        token = await self.tokens.issue(TokenUse.API, OPERATOR, start_token.START_TOKEN_SECONDS)
        ready: ReadyLine = {
            "metadata": url_of(options.metadata[0], self.reach.port),
            "console": self.ports.console_url,
            "page": self.ports.page_url,
            "arm": self.ports.arm_url,
            "subscription": options.fleet.cloud.subscription,
            "token": token.text,
            "ca": str(self.ports.authority.ca.absolute()),
        }
        if certificate := options.fleet.console.certificate:
            ready["certificate"] = _absolute(certificate)
        if options.sockets:
            ready["sockets"] = _absolute(options.sockets)
        return ready

    async def machines(self) -> AsyncIterator[tuple[str, str | None]]:
        """Yield every machine with the URL that answers as it on this host; None if it has none."""
        last = 0
        while locations := await self.fleet.reader.list_machines(last, _PAGE):
            for location, url in zip(
                locations, await self.reach.urls(locations, Reader()), strict=True
            ):
                yield location.machine.name, url
            last = locations[-1].number

    # --- Callbacks of the process driver ---

    async def _find(self, name: str) -> tuple[str, Machine]:
        location = await find_machine(self.fleet, name)
        return location.scope, location.machine

    async def _open_listener(
        self, listening: socket.socket, scope: str, machine: str
    ) -> Callable[[], None]:
        listener = await self.server.listen(listening, for_machine(scope, machine), proxy=True)
        return lambda: self.server.close(listener)


def _absolute(path: str | Path) -> str:
    return str(Path(path).absolute())
