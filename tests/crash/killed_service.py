"""The real `fairwarning up`, asked over TLS as Azure's tools ask it, and killed."""

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

from tests.crash.killing import Dead
from tests.fixtures.http import LOOPBACK, Response, send
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS

VERSION = "api-version=2024-11-01"


@dataclass(frozen=True)
class Credentials:
    """What a client was given when the service first came up, and goes on using."""

    base: str
    token: str
    tls: ssl.SSLContext


def operation_url(response: Response) -> str:
    """Where to ask how an accepted operation goes on; empty if there is none."""
    return response.headers.get("azure-asyncoperation", "")


class KilledService(ServiceProcess):
    """One run of the service on a folder, from its start to its death."""

    program: ClassVar[Sequence[str]] = (sys.executable, "-m", "tests.crash.program")

    def __init__(self, data: Path, port: int, *words: str, failpoint: str = "") -> None:
        env = {**os.environ, "FAIRWARNING_FAILPOINT": failpoint}
        super().__init__(data, *words, "--clock", "virtual", arm=f"{LOOPBACK}:{port}", env=env)
        self._connections: dict[str, HTTPConnection] = {}

    def credentials(self) -> Credentials:
        """What a client needs to know."""
        tls = ssl.create_default_context(cafile=self.ready["ca"])
        return Credentials(self.ready["arm"], self.ready["token"], tls)

    # --- Requests ---

    def arm(self, known: Credentials, method: str, url: str, body: object = None) -> Response:
        """A request to the control plane; `Dead` if no response comes."""
        return self._ask(known, url if "://" in url else known.base + url, method, body)

    def advance_with(self, known: Credentials, seconds: int) -> None:
        """Let virtual time pass; `Dead` if no response comes."""
        url = f"{self.ready['console']}/api/clock"
        assert self._ask(known, url, "POST", {"advance": seconds}).status == 200

    def machines(self, known: Credentials) -> dict[str, Any]:
        """All machines as the rules know them, by name."""
        page = self._ask(known, f"{self.ready['console']}/api/machines").json
        assert page["next"] is None
        return {machine["name"]: machine for machine in page["machines"]}

    def _ask(
        self, known: Credentials, url: str, method: str = "GET", body: object = None
    ) -> Response:
        split = urlsplit(url)
        connection = self._connection(known, f"{split.scheme}://{split.netloc}")
        headers = {"Authorization": f"Bearer {known.token}", "Content-Type": "application/json"}
        text = b"" if body is None else json.dumps(body).encode()
        try:
            return send(connection, method, f"{split.path}?{split.query}", headers, text)
        except (OSError, HTTPException) as error:
            raise Dead from error

    def _connection(self, known: Credentials, base: str) -> HTTPConnection:
        if base not in self._connections:
            split = urlsplit(base)
            host, port = split.hostname or "", split.port
            self._connections[base] = (
                HTTPSConnection(host, port, timeout=LIMIT_SECONDS, context=known.tls)
                if split.scheme == "https"
                else HTTPConnection(host, port, timeout=LIMIT_SECONDS)
            )
        return self._connections[base]

    # --- The end ---

    def arm_failpoint(self) -> None:
        """From now on it dies where it was told to die at the start."""
        self.process.send_signal(signal.SIGUSR1)
        assert self.process.stdout
        assert self.process.stdout.readline() == "armed\n"

    def end(self, number: int = 0) -> int:
        """Send a signal, if any, and wait for the end; the exit code."""
        if number == signal.SIGINT:  # a connection that is kept would hold it up
            self._close()
        if number:
            self.process.send_signal(number)
        self.process.communicate(timeout=LIMIT_SECONDS)
        self._close()
        return self.process.returncode

    def _close(self) -> None:
        for connection in self._connections.values():
            connection.close()
