"""The ports of the console and of the ARM API, whose servers start on the first connection."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from fairwarning.console.shutdown import ShutdownSignal
from fairwarning.core.errors import Refused
from fairwarning.core.record import changed
from fairwarning.metadata.listeners import is_loopback, open_tcp
from fairwarning.metadata.server import MetadataServer
from fairwarning.server.certificates import Authority, CertificateFiles
from fairwarning.server.lazy import LazyServer
from fairwarning.server.options import ServerOptions
from fairwarning.server.ports.refusals import ConnectionCounter, PortLimits
from fairwarning.server.reach import Reach, url_of
from fairwarning.service.config.settings import ArmSettings, ConsoleSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.health import PartHealth, health_metric
from fairwarning.service.issued_tokens import IssuedTokens
from fairwarning.service.metrics import Metric
from fairwarning.service.resources import WEBHOOKS
from fairwarning.service.webhooks.targets import AllowedTargets

if TYPE_CHECKING:
    from ssl import SSLContext

    from starlette.types import ASGIApp

    from fairwarning.service.webhooks.webhooks import WebhookService

log = logging.getLogger(__name__)

_KEY_BYTES = 16
_RENEW_SECONDS = 600.0  # short, because a sleep does not see time that the host was suspended


class OperatorPorts:
    """The console and the ARM API of a process, their certificates, and the webhooks."""

    tokens: IssuedTokens  # since `serve`

    def __init__(
        self, options: ServerOptions, fleet: Fleet, server: MetadataServer, reach: Reach
    ) -> None:
        self._options = options
        self._fleet = fleet
        self._server = server
        self._reach = reach
        self._console, self._arm = options.fleet.console, options.fleet.control_plane
        self._arm_hosts = (options.arm[0], *self._arm.hosts)
        console_hosts = (options.console[0], *self._console.hosts) if self._console.tls else ()
        self.authority = Authority(options.data, (*self._arm_hosts, *console_hosts))
        self._key = options.key or secrets.token_urlsafe(_KEY_BYTES)
        self._closing = ShutdownSignal(fleet)
        self._webhooks: WebhookService | None = None
        self._webhooks_lock = asyncio.Lock()
        self._lazy_servers: list[LazyServer] = []
        self.parts: list[Callable[[], PartHealth]] = [server.health]
        self._console_tls = self._choose_console_tls()

    def _choose_console_tls(self) -> "Callable[[], SSLContext] | None":
        """Return what gives the console its TLS context; None without TLS."""
        settings = self._console
        if not settings.certificate:
            return self.authority.context if settings.tls else None
        key = Path(settings.key or settings.certificate)
        files = CertificateFiles(Path(settings.certificate), key)
        self.parts.append(files.health)
        return files.context

    def open(self, stack: AsyncExitStack) -> None:
        """Open the ports; connections wait."""
        self._sockets = [
            stack.enter_context(open_tcp(*address, exact=True, shared=self._options.worker))
            for address in (self._options.console, self._options.arm)
        ]
        self._console_port, self._arm_port = (opened.getsockname()[1] for opened in self._sockets)

    def reserve_descriptors(self) -> None:
        """Count the connections of the ports; the metadata endpoint leaves them descriptors."""
        self._counters = [self._counter("console", self._console), self._counter("arm", self._arm)]

    def _counter(self, name: str, settings: ConsoleSettings | ArmSettings) -> ConnectionCounter:
        port_limits = PortLimits(
            connections=settings.connections, of_address=settings.connections_of_address
        ).within_descriptors()
        self._server.other_connections += port_limits.connections
        return ConnectionCounter(name, port_limits)

    async def serve(self, tokens: IssuedTokens, stack: AsyncExitStack) -> None:
        """Start the servers on their first connections, and the webhooks if there are any."""
        self.tokens = tokens
        now, (console, arm) = self._fleet.clock.now, self._counters
        self._lazy_servers += (
            LazyServer(self._sockets[0], self._load_console, console, now, self._console_tls),
            LazyServer(self._sockets[1], self._load_arm, arm, now, self.authority.context),
        )
        self.parts += [lazy.health for lazy in self._lazy_servers]
        # With a shared database, another process may create a webhook at any time.
        if self._options.database or await self._fleet.reader.resources(WEBHOOKS, WEBHOOKS, 1):
            await self.webhooks()
        stack.push_async_callback(self._stop_webhooks)
        stack.callback(self._closing.begin)

    async def close(self) -> None:
        """Complete the requests in progress on both ports and on the metadata endpoint."""
        closing = [lazy.close() for lazy in self._lazy_servers]
        await asyncio.gather(self._server.stop(), *closing)

    async def renew_certificates(self) -> None:
        """Renew the certificate of the authority whenever it is due; log each reason once."""
        problem = ""
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                await asyncio.to_thread(self.authority.renew)
                problem = ""
            except Exception as error:
                if repr(error) != problem:
                    problem, trace = repr(error), not isinstance(error, Refused)
                    text = "cannot renew the certificate; retrying: %s"
                    log.error(text, error, exc_info=trace)  # noqa: TRY400  (not always a trace)

    # --- Addresses ---

    @property
    def console_url(self) -> str:
        """The URL of the console."""
        return url_of(self._options.console[0], self._console_port, self._console.scheme)

    @property
    def page_url(self) -> str:
        """The URL of the console's page, with its access key."""
        return f"{self.console_url}/login?key={self._key}"

    @property
    def arm_url(self) -> str:
        """The URL of the ARM API."""
        return url_of(self._options.arm[0], self._arm_port, "https")

    # --- Parts that are loaded when they are needed ---

    async def webhooks(self) -> "WebhookService":
        """Return the webhook service; start it on the first call."""
        async with self._webhooks_lock:
            if self._webhooks is None:
                from fairwarning.service.webhooks.webhooks import (  # noqa: PLC0415  (see above)
                    WebhookService,
                )

                targets = AllowedTargets(self._console.webhook_hosts)
                self._webhooks = WebhookService(self._fleet, targets)
                await self._webhooks.start()
            return self._webhooks

    async def _stop_webhooks(self) -> None:
        if self._webhooks:
            await self._webhooks.stop()

    def metrics(self) -> list[Metric]:
        """The metrics of the process, for the console."""
        webhooks = self._webhooks.metrics() if self._webhooks else []
        health = health_metric([*self.health(), *self._fleet.health()])
        return [*self._fleet.metrics(), *self._server.metrics(), *webhooks, health]

    def health(self) -> list[PartHealth]:
        """How the parts beside the fleet are."""
        webhooks = self._webhooks.health() if self._webhooks else PartHealth(name="webhooks")
        return [*(read() for read in self.parts), webhooks]

    def _load_console(self) -> "ASGIApp":
        from fairwarning.console.api.section import ConsoleParts  # noqa: PLC0415  (see LazyServer)
        from fairwarning.console.app import application  # noqa: PLC0415  (the same)

        arm_host = (*self._arm.hosts, self._options.arm[0])[0]
        arm_host = f"[{arm_host}]" if ":" in arm_host else arm_host
        return application(
            ConsoleParts(
                fleet=self._fleet,
                metrics=self.metrics,
                health=self.health,
                tokens=self.tokens,
                webhooks=self.webhooks,
                closing=self._closing,
                key=self._key,
                cloud=self._options.fleet.cloud,
                settings=self._console,
                machine_urls=self._reach.urls,
                metadata=url_of(self._options.metadata[0], self._reach.port),
                arm=f"https://{arm_host}:{self._arm_port}",
                ca=self.authority.ca.read_text("ascii"),
            )
        )

    def _load_arm(self) -> "ASGIApp":
        from fairwarning.arm.app import application  # noqa: PLC0415  (see LazyServer)

        by_address = not is_loopback(self._options.metadata[0])
        settings = changed(self._arm, hosts=self._arm_hosts, by_address=by_address)
        return application(self._fleet, self._options.fleet.cloud, self.tokens, settings)
