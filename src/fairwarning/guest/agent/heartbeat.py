"""Whether every loop of the agent makes progress: for the health server and the service manager."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time

log = logging.getLogger(__name__)

WAITING_SECONDS = 300.0  # for loops that wait for other computers: more than a first response takes


class LoopControl(threading.Event):
    """Tells a loop to stop. Each time the loop asks is a heartbeat."""

    def __init__(self, name: str, limit_seconds: float = WAITING_SECONDS) -> None:
        super().__init__()
        self._name = name
        self._limit_seconds = limit_seconds
        self._beat_at = float("inf")  # it has not begun

    def is_set(self) -> bool:
        """Return whether to stop."""
        self._beat_at = time.monotonic()
        return super().is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, but not after the stop; return whether to stop."""
        super().wait(timeout)
        return self.is_set()

    def problem(self) -> str:
        """Return a sentence if the loop hangs; otherwise an empty text."""
        seconds = time.monotonic() - self._beat_at
        hangs = seconds > self._limit_seconds
        return f"the {self._name} loop has not run for {seconds:.0f} s" if hangs else ""


class WatchdogNotifier:
    """systemd's notification protocol, for `Type=notify` with a watchdog.

    A message is a datagram to `$NOTIFY_SOCKET`. Without that variable nobody listens.
    """

    def __init__(self) -> None:
        # Without the variables: hooks are not the service.
        address = os.environ.pop("NOTIFY_SOCKET", "")
        for name in ("WATCHDOG_USEC", "WATCHDOG_PID"):
            os.environ.pop(name, None)
        self._socket: socket.socket | None = None
        family = getattr(socket, "AF_UNIX", None)
        if address and family is not None:
            self._socket = socket.socket(family, socket.SOCK_DGRAM)
            self._socket.settimeout(0)  # a full queue must not block
            try:
                self._socket.connect("\0" + address[1:] if address[0] == "@" else address)
            except OSError as error:
                log.warning("cannot notify the service manager: %s", error)
                self.close()

    def send(self, message: str) -> None:
        """Send assignments, such as `STATUS=...` or `WATCHDOG=1`; one that is lost is repeated."""
        if self._socket is not None:
            try:
                self._socket.send(message.encode())
            except OSError as error:  # the next message may arrive
                log.debug("cannot notify the service manager: %s", error)

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
