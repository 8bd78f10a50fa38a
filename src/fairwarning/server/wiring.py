"""The whole service in one process: store, fleet, driver, metadata endpoint, console and ARM."""

import asyncio
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fairwarning.console.readers import Reader
from fairwarning.console.shutdown import ShutdownSignal
from fairwarning.core import limits
from fairwarning.core.errors import NotFound, Refused
from fairwarning.core.model import Machine
from fairwarning.core.record import changed
from fairwarning.machines.process.driver import ProcessDriver
from fairwarning.metadata.callers import for_machine
from fairwarning.metadata.listeners import PortRange, is_loopback, open_tcp
from fairwarning.metadata.server import MetadataServer
from fairwarning.server import data_folder, file_systems, keys, start_token
from fairwarning.server.certificate_files import CertificateFiles
from fairwarning.server.drivers import CloseableDriver, driver_for
from fairwarning.server.lazy import LazyServer
from fairwarning.server.machine_listeners import MachineListeners
from fairwarning.server.ports.counting import ConnectionCounter, PortLimits
from fairwarning.server.reach import Reach, url_of
from fairwarning.server.ready import OPERATOR, ReadyLine, write_ready
from fairwarning.server.sockets import MachineSockets
from fairwarning.server.tls.certificates import Authority
from fairwarning.service.clock import Clock, RealClock, VirtualClock
from fairwarning.service.config import fleet_file
from fairwarning.service.config.fleet_file import ApplyResult, FleetFile
from fairwarning.service.config.settings import (
    TENANT,
    ArmSettings,
    ConsoleSettings,
    MetadataSettings,
)
from fairwarning.service.fleet import Fleet
from fairwarning.service.guest_addresses import GuestAddresses, GuestFinder
from fairwarning.service.issued_tokens import IssuedTokens
from fairwarning.service.lookup import find_machine
from fairwarning.service.metrics import Metric
from fairwarning.service.resources import WEBHOOKS
from fairwarning.service.retention import Retention
from fairwarning.service.tokens import Tokens, TokenUse
from fairwarning.service.webhooks.targets import AllowedTargets
from fairwarning.store.memory import MemoryStore
from fairwarning.store.store import Store

if TYPE_CHECKING:
    from ssl import SSLContext

    from starlette.types import ASGIApp

    from fairwarning.console.api.integrations import ScenarioRunner
    from fairwarning.service.webhooks.webhooks import WebhookService

log = logging.getLogger(__name__)

Address = tuple[str, int]

_UNIX_SOCKETS = hasattr(socket, "AF_UNIX")  # `exec` attaches through one
_PAGE = 1000  # machines read at once
_KEY_BYTES = 16
_DAY_SECONDS = 24 * 3600


@dataclass(frozen=True)
class ServerOptions:
    """What to run, and on which addresses."""

    data: Path
    fleet: FleetFile
    database: str = field(
        default="", repr=False
    )  # a postgresql:// URL; `data` then holds only files of this host
    memory: bool = False
    metadata: Address = ("127.0.0.1", 8169)
    console: Address = ("127.0.0.1", 8170)
    arm: Address = ("127.0.0.1", 8171)
    machine_ports: PortRange | None = None  # None: only if machines have no other address
    default_machine: str = ""  # that unknown callers are answered as
    virtual: bool = False
    sockets: Path | None = None  # folder for one Unix socket per machine
    network_folder: bool = False  # whether `data` may be on a network file system
    key: str = field(default="", repr=False)  # access key of the page; all workers share one
    worker: bool = False  # whether other processes listen on the same ports
    load_scenarios: Callable[[], "ScenarioRunner"] | None = None  # called on the first request


class ServerProcess:
    """The wired parts; `running` starts them in order and stops them in reverse order."""

    applied: ApplyResult

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        if not (options.memory or options.database or options.network_folder):
            file_systems.refuse_network(options.data)
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
        self.fleet = Fleet(_store(options), self.clock, self.programs or self.driver)
        if self.fleet.following:
            self.fleet.following.staleness_seconds = options.fleet.cluster.staleness_seconds
            self.fleet.following.all_scopes = options.sockets is not None
        settings = _settings(options)
        self.server = MetadataServer(self.fleet, options.fleet.cloud, settings)
        self.reach = Reach(
            options.metadata[0], options.machine_ports, settings.default_machine, self.fleet
        )
        if isinstance(self.driver, GuestFinder):
            self.server.callers.find_guest = GuestAddresses(self.fleet, self.driver).find
        self._targets = AllowedTargets(options.fleet.console.webhook_hosts)
        self._webhooks: WebhookService | None = None
        self._webhooks_lock = asyncio.Lock()
        self._closing = ShutdownSignal(self.fleet)
        self._renewal: asyncio.Task[None] | None = None
        self._key = options.key or secrets.token_urlsafe(_KEY_BYTES)
        self._lazy_servers: list[LazyServer] = []
        self._leftovers: list[Callable[[], None]] = []
        self._arm_hosts = (options.arm[0], *options.fleet.control_plane.hosts)
        console = options.fleet.console
        console_hosts = (options.console[0], *console.hosts) if console.tls else ()
        self.authority = Authority(options.data, (*self._arm_hosts, *console_hosts))
        self._console_tls = _console_tls(console, self.authority)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["ServerProcess"]:
        """Run the service inside the context."""
        options = self.options
        async with AsyncExitStack() as stack:
            shared = options.worker
            if not shared:
                lock = data_folder.lock(options.data, memory=options.memory)
                self._leftovers.append(stack.enter_context(lock))
            metadata = self.reach.open_endpoint(options.metadata[1], shared=shared)
            stack.enter_context(metadata)
            console = stack.enter_context(open_tcp(*options.console, exact=True, shared=shared))
            arm = stack.enter_context(open_tcp(*options.arm, exact=True, shared=shared))
            self.console_port: int = console.getsockname()[1]
            self.arm_port: int = arm.getsockname()[1]
            await self.fleet.start()
            stack.push_async_callback(self.fleet.stop)
            if isinstance(self.driver, CloseableDriver):
                stack.push_async_callback(self.driver.close)
            self.applied = await fleet_file.apply(options.fleet, self.fleet.submit)
            # Closing a program or a socket aborts its requests, so the server answers them before.
            if self.programs:
                stack.push_async_callback(self.programs.close)
                self._leftovers.insert(0, self.programs.remove_files)
            machine_listeners = self._machine_listeners()
            for listeners in machine_listeners:
                stack.callback(listeners.close_all)
                self._leftovers.insert(0, listeners.remove_files)
            stack.push_async_callback(self._stop_servers)
            console_counter = self._counter("console", options.fleet.console)
            arm_counter = self._counter("arm", options.fleet.control_plane)
            await self.server.listen(metadata, self.reach.resolver)
            key = await keys.prepare(
                options.data, self.authority, self.fleet.store, memory=options.memory
            )
            self.tokens = IssuedTokens(Tokens(key, TENANT), self.fleet)
            await self.tokens.refresh()
            if self.programs:
                await self.programs.listen()
            for listeners in machine_listeners:
                await listeners.open_all()
            await self._check_default_machine()
            now = self.clock.now
            self._lazy_servers += (
                LazyServer(console, self._load_console, console_counter, now, self._console_tls),
                LazyServer(arm, self._load_arm, arm_counter, now, self.authority.context),
            )
            # With a shared database, another process may create a webhook at any time.
            if options.database or await self.fleet.reader.resources(WEBHOOKS, WEBHOOKS, 1):
                await self.webhooks()
            stack.push_async_callback(self._stop_webhooks)
            stack.callback(self._closing.begin)
            self._start_tasks(stack)
            yield self

    def _start_tasks(self, stack: AsyncExitStack) -> None:
        """Start what runs in the background until the service stops."""
        file = self.options.fleet
        retention = Retention(self.fleet, file.journal, file.operations)
        tokens = (self.tokens.follow(), self.tokens.run_expiry())
        for work in (self._renew(), retention.run(), *tokens):
            stack.callback(asyncio.create_task(work).cancel)
        stack.callback(self._stop_renewal)

    async def _stop_servers(self) -> None:
        """Complete the requests in progress on all ports, at the same time."""
        closing = [lazy.close() for lazy in self._lazy_servers]
        await asyncio.gather(self.server.stop(), *closing)

    def remove_files(self) -> None:
        """Remove what tells others that the service runs; the process ends without `running`."""
        for remove in self._leftovers:
            remove()

    async def webhooks(self) -> "WebhookService":
        """Return the webhook service; start it on the first call."""
        async with self._webhooks_lock:
            if self._webhooks is None:
                from fairwarning.service.webhooks.webhooks import (  # noqa: PLC0415  (see above)
                    WebhookService,
                )

                self._webhooks = WebhookService(self.fleet, self._targets)
                await self._webhooks.start()
            return self._webhooks

    async def _stop_webhooks(self) -> None:
        if self._webhooks:
            await self._webhooks.stop()

    def _load_console(self) -> "ASGIApp":
        from fairwarning.console.api.about import ControlPlane  # noqa: PLC0415  (see LazyServer)
        from fairwarning.console.app import ConsoleParts, application  # noqa: PLC0415  (the same)

        file, load_scenarios = self.options.fleet, self.options.load_scenarios
        arm_host = (*file.control_plane.hosts, self.options.arm[0])[0]
        return application(
            ConsoleParts(
                fleet=self.fleet,
                metrics=self._metrics,
                tokens=self.tokens,
                webhooks=self.webhooks,
                closing=self._closing,
                key=self._key,
                cloud=file.cloud,
                settings=file.console,
                machine_urls=self.reach.urls,
                scenarios=load_scenarios() if load_scenarios else None,
                control_plane=ControlPlane(
                    f"https://{_authority(arm_host, self.arm_port)}",
                    self.authority.ca.read_text("ascii"),
                ),
            )
        )

    def _load_arm(self) -> "ASGIApp":
        from fairwarning.arm.app import application  # noqa: PLC0415  (see LazyServer)

        file = self.options.fleet
        by_address = not is_loopback(self.options.metadata[0])
        settings = changed(file.control_plane, hosts=self._arm_hosts, by_address=by_address)
        return application(self.fleet, file.cloud, self.tokens, settings)

    def _counter(self, name: str, settings: ConsoleSettings | ArmSettings) -> ConnectionCounter:
        """Return the connection counter of a port, and reserve its descriptors."""
        port_limits = PortLimits(
            connections=settings.connections, of_address=settings.connections_of_address
        ).within_descriptors()
        self.server.other_connections += port_limits.connections
        return ConnectionCounter(name, port_limits)

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

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_DAY_SECONDS)
            try:
                await asyncio.to_thread(self.authority.renew)
            except Refused as refused:
                log.error("cannot renew the certificate; retrying in a day: %s", refused)  # noqa: TRY400

    def _metrics(self) -> list[Metric]:
        webhooks = self._webhooks.metrics() if self._webhooks else []
        return [*self.fleet.metrics(), *self.server.metrics(), *webhooks]

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

    def _stop_renewal(self) -> None:
        if self._renewal:
            self._renewal.cancel()

    async def _ready(self) -> ReadyLine:
        options = self.options
        token = await self.tokens.issue(TokenUse.API, OPERATOR, start_token.START_TOKEN_SECONDS)
        settings = options.fleet.console
        console = url_of(options.console[0], self.console_port, settings.scheme)
        ready: ReadyLine = {
            "metadata": url_of(options.metadata[0], self.reach.port),
            "console": console,
            "page": f"{console}/login?key={self._key}",
            "arm": url_of(options.arm[0], self.arm_port, "https"),
            "subscription": options.fleet.cloud.subscription,
            "token": token.text,
            "ca": str(self.authority.ca.absolute()),
        }
        if settings.certificate:
            ready["certificate"] = _absolute(settings.certificate)
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


def _store(options: ServerOptions) -> Store:
    if options.memory:
        return MemoryStore()
    if options.database:
        from fairwarning.server.database import store_at  # noqa: PLC0415  (an extra)

        return store_at(options.database, options.fleet.cluster)
    from fairwarning.store.sqlite import SQLiteStore  # noqa: PLC0415  (not needed with --memory)

    return SQLiteStore(options.data / "fleet.db")


def _console_tls(
    settings: ConsoleSettings, authority: Authority
) -> "Callable[[], SSLContext] | None":
    """Return what gives the console its TLS context; None without TLS."""
    if settings.certificate:
        key = Path(settings.key or settings.certificate)
        return CertificateFiles(Path(settings.certificate), key).context
    return authority.context if settings.tls else None


def _settings(options: ServerOptions) -> MetadataSettings:
    settings = options.fleet.endpoint
    if options.default_machine:
        settings = changed(settings, default_machine=options.default_machine)
    if settings.requests_per_second is None and not is_loopback(options.metadata[0]):
        return changed(settings, requests_per_second=limits.REQUESTS_PER_SECOND)  # M17
    return settings


def _absolute(path: str) -> str:
    return str(Path(path).absolute())


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
