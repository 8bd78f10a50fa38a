"""The real `fairwarning up`, called over TLS as Azure's tools do, and killed."""

import json
import os
import signal
import ssl
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from tests.fixtures.http import LOOPBACK, Response, send
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS

VERSION = "api-version=2024-11-01"


class ProcessEnded(Exception):
    """The process has ended."""


@dataclass(frozen=True)
class Credentials:
    """The credentials of a client from the first start of the service, used after restarts too."""

    base: str
    token: str
    tls: ssl.SSLContext


def operation_url(response: Response) -> str:
    """Return the URL of an accepted operation's status; empty if there is none."""
    return response.headers.get("azure-asyncoperation", "")


class KilledService(ServiceProcess):
    """One process of the service on a folder, from its start to its end."""

    program: ClassVar[Sequence[str]] = (sys.executable, "-m", "tests.crash.failpoints")
    credentials: Credentials
    """Of the client, which has them from the first start."""

    def __init__(self, data: Path, port: int, *options: str, failpoint: str = "") -> None:
        env = {**os.environ, "FAIRWARNING_FAILPOINT": failpoint}
        super().__init__(data, *options, "--clock", "virtual", arm=f"{LOOPBACK}:{port}", env=env)
        self._connections: dict[str, HTTPConnection] = {}

    def new_credentials(self) -> Credentials:
        tls = ssl.create_default_context(cafile=self.ready["ca"])
        return Credentials(self.ready["arm"], self.ready["token"], tls)

    # --- Requests ---

    def arm(self, method: str, url: str, body: object = None) -> Response:
        """Send a request to the control plane; raises `ProcessEnded` if no response comes."""
        return self._request(url if "://" in url else self.credentials.base + url, method, body)

    def advance(self, seconds: float) -> None:
        """Advance the virtual clock; raises `ProcessEnded` if no response comes."""
        url = f"{self.ready['console']}/api/clock"
        assert self._request(url, "POST", {"advance_seconds": seconds}).status == 200

    def machines(self) -> dict[str, Any]:
        page = self._request(f"{self.ready['console']}/api/machines").json
        assert page["next"] is None
        return {machine["name"]: machine for machine in page["machines"]}

    def _request(self, url: str, method: str = "GET", body: object = None) -> Response:
        split = urlsplit(url)
        connection = self._connection(f"{split.scheme}://{split.netloc}")
        headers = {
            "Authorization": f"Bearer {self.credentials.token}",
            "Content-Type": "application/json",
        }
        text = b"" if body is None else json.dumps(body).encode()
        try:
            return send(connection, method, f"{split.path}?{split.query}", headers, text)
        except (OSError, HTTPException) as error:
            raise ProcessEnded from error

    def _connection(self, base: str) -> HTTPConnection:
        if base not in self._connections:
            split = urlsplit(base)
            host, port = split.hostname or "", split.port
            self._connections[base] = (
                HTTPSConnection(host, port, timeout=LIMIT_SECONDS, context=self.credentials.tls)
                if split.scheme == "https"
                else HTTPConnection(host, port, timeout=LIMIT_SECONDS)
            )
        return self._connections[base]

    # --- Ending ---

    def arm_failpoint(self) -> None:
        """Make the process die at the failpoint given at its start."""
        self.process.send_signal(signal.SIGUSR1)
        assert self.process.stdout
        assert self.process.stdout.readline() == "armed\n"

    def end(self, number: int = 0) -> int:
        """Send a signal, if any, wait for the end and return the exit code."""
        if number == signal.SIGINT:  # an open connection would delay the end
            self._close()
        if number:
            self.process.send_signal(number)
        self.process.communicate(timeout=LIMIT_SECONDS)
        self._close()
        return self.process.returncode

    def _close(self) -> None:
        for connection in self._connections.values():
            connection.close()
