"""systemd's notification protocol: `Type=notify` with a watchdog (IB6).

A message is a datagram to `$NOTIFY_SOCKET`. Without that variable nobody listens: none is sent.
"""

import logging
import os
import socket

from fairwarning.server.progress import PERIOD_SECONDS

log = logging.getLogger(__name__)

_BEATS_PER_LIMIT = 3  # so that two may be lost
_SHORTEST_SECONDS = 0.01  # between reports: nobody can mean a limit that needs more of them
_MICROSECONDS = 1_000_000
_SERVING = "READY=1\nSTATUS=serving"
_EXTENSION_SECONDS = 60  # of the time that a start may take, with each report


class ServiceManager:
    """What started this process, if it wants to be told how the process is."""

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
