"""Reports to what supervises this process, systemd or the parent of a worker, how it is (IB6).

It reports progress only if the writer has turned since the last report, or has nothing to do, and
if a write to the store returned: with success, or with an error that `/readyz` shows.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import field
from time import monotonic
from typing import Protocol

from fairwarning.core.errors import Unavailable
from fairwarning.core.record import short_record
from fairwarning.service.fleet import Fleet

log = logging.getLogger(__name__)

PERIOD_SECONDS = 10.0  # between two reports at most; each costs a small commit
STEP_SECONDS = 3600.0  # for a step of the start during which the writer does nothing
_BEATS_PER_LIMIT = 3  # so that two may be lost
_SHORTEST_SECONDS = 0.01  # between reports: nobody can mean a limit that needs more of them
_MICROSECONDS = 1_000_000
_SERVING = "READY=1\nSTATUS=serving"
_EXTENSION_SECONDS = 60  # of the time that a start may take, with each report


class ProgressReceiver(Protocol):
    """Restarts a process that reports nothing for a while."""

    @property
    def period_seconds(self) -> float: ...

    def report_start(self, waiting_for: str) -> None: ...

    def report_ready(self) -> None: ...

    def report_progress(self) -> None: ...

    def report_stop(self) -> None: ...


@short_record
class StartStep:
    """What the start of a process waits for."""

    waiting_for: str
    limit_seconds: float = STEP_SECONDS
    since: float = field(default_factory=monotonic)


class ProgressReporter:
    """Reports the steps of the start, then the progress of the fleet's writer."""

    def __init__(
        self,
        supervisor: ProgressReceiver,
        fleet: Fleet,
        step: Callable[[], StartStep | None],
        give_up: Callable[[Unavailable], None],
    ) -> None:
        """`step` returns what the start waits for; None once the service serves."""
        self._supervisor = supervisor
        self._fleet = fleet
        self._step = step
        self._give_up = give_up
        self._progress: int | None = None
        self._progressed_at = float("-inf")

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            try:
                await self.report()
            except Exception:
                log.exception("cannot report progress; trying again")
            await asyncio.sleep(self._supervisor.period_seconds)

    async def report(self) -> None:
        """Report once, if there is progress."""
        if step := self._step():
            self._report_step(step)
            return
        await self._fleet.store_check.error()  # does not return while the store hangs
        if self._writer_progressed():
            self._supervisor.report_progress()

    def _report_step(self, step: StartStep) -> None:
        self._writer_progressed()
        seconds = monotonic() - max(step.since, self._progressed_at)
        if seconds > step.limit_seconds:
            text = f"the start is given up: it waited for {step.waiting_for} for {seconds:.0f} s"
            log.error(text)
            self._give_up(Unavailable("StartTimedOut", text))
            return
        if monotonic() - step.since > self._supervisor.period_seconds / 2:
            log.warning("waiting for %s since %.0f s", step.waiting_for, monotonic() - step.since)
        self._supervisor.report_start(step.waiting_for)

    def _writer_progressed(self) -> bool:
        """Whether the writer has turned since the last call, or has nothing to do."""
        progress = self._fleet.writer.progress
        progressed = progress is None or progress != self._progress
        if progressed and progress is not None:
            self._progressed_at = monotonic()
        self._progress = progress
        return progressed


class ServiceManager:
    """systemd, with `Type=notify` and a watchdog (IB6).

    A message is a datagram to `$NOTIFY_SOCKET`. Without that variable nobody listens: none is sent.
    """

    def __init__(self) -> None:
        # Without the variables: programs that this process starts are not the service.
        address = os.environ.pop("NOTIFY_SOCKET", "")
        limit = os.environ.pop("WATCHDOG_USEC", "")
        process = os.environ.pop("WATCHDOG_PID", "") or str(os.getpid())
        watched = limit.isdecimal() and process == str(os.getpid())
        seconds = float(limit) / _MICROSECONDS / _BEATS_PER_LIMIT if watched else 0.0  # 0: off
        is_usable = seconds >= _SHORTEST_SECONDS
        self.period_seconds = min(seconds, PERIOD_SECONDS) if is_usable else PERIOD_SECONDS
        self._socket = _connect("\0" + address[1:] if address.startswith("@") else address)

    def report_start(self, waiting_for: str) -> None:
        """Report what the start waits for, and ask for more time."""
        extension = _EXTENSION_SECONDS * _MICROSECONDS
        self._send(f"STATUS=starting: waiting for {waiting_for}\nEXTEND_TIMEOUT_USEC={extension}")

    def report_ready(self) -> None:
        """Report that the service serves."""
        self._send(_SERVING)

    def report_progress(self) -> None:
        """Feed the watchdog; say again that the service serves, as that message may be lost."""
        self._send(f"{_SERVING}\nWATCHDOG=1")

    def report_stop(self) -> None:
        """Report that the service begins to stop."""
        self._send("STOPPING=1\nSTATUS=stopping")

    def _send(self, message: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.send(message.encode())
        except OSError as error:  # the next report may arrive
            log.warning("cannot notify the service manager: %s", error)


def _connect(address: str) -> socket.socket | None:
    """Open the socket once, so that a report needs no free descriptor."""
    if not address:
        return None
    notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notifications.settimeout(0)
    try:
        notifications.connect(address)
    except OSError as error:
        log.warning("cannot notify the service manager at $NOTIFY_SOCKET: %s", error)
        notifications.close()
        return None
    return notifications
