"""The real `fairwarning up`, asked over TLS as Azure's tools ask it, and killed."""

import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.crash.killing import PATIENCE_SECONDS, ROOT, Dead

HOST = "127.0.0.1"
VERSION = "api-version=2024-11-01"
_PORTS = range(10_000, 30_000)  # below those that Linux gives to clients


@dataclass(frozen=True)
class Reply:
    """What a client got."""

    status: int
    url: str  # where to ask how it goes on; empty: nowhere
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401  (whatever it is)
        """The body, read."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Pass:
    """What a client was given when the service first came up, and goes on using."""

    base: str
    token: str
    tls: ssl.SSLContext


def free_port() -> int:
    """For all lives of a service: the URLs that it gives away have it in them."""
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as taken, suppress(OSError):
            taken.bind((HOST, port))
            return port
    raise OSError("no port is free")


class Life:
    """One life of the service on a folder."""

    def __init__(self, data: Path, port: int, *words: str, failpoint: str = "") -> None:
        program = [sys.executable, "-m", "tests.crash.program"]
        options = ["--json", "--data", str(data), "--clock", "virtual", "--arm", f"{HOST}:{port}"]
        options += ["--metadata", f"{HOST}:0", "--console", f"{HOST}:0"]
        self.process = subprocess.Popen(
            [*program, "up", *words, *options],
            cwd=ROOT,
            env={**os.environ, "FAIRWARNING_FAILPOINT": failpoint},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, "the service did not come up"
        self.ready: dict[str, Any] = json.loads(line)
        self._kept: dict[str, HTTPConnection] = {}

    def given(self) -> Pass:
        """What a client needs to know."""
        tls = ssl.create_default_context(cafile=self.ready["ca"])
        return Pass(self.ready["arm"], self.ready["token"], tls)

    # --- Asking ---

    def arm(self, known: Pass, method: str, url: str, body: object = None) -> Reply:
        """The control plane; `Dead` if no answer comes."""
        return self._ask(known, url if "://" in url else known.base + url, method, body)

    def advance(self, known: Pass, seconds: int) -> None:
        """Let virtual time pass."""
        url = f"{self.ready['console']}/api/clock"
        assert self._ask(known, url, "POST", {"advance": seconds}).status == 200

    def machines(self, known: Pass) -> dict[str, Any]:
        """All machines as the rules know them, by name."""
        page = self._ask(known, f"{self.ready['console']}/api/machines").json
        assert page["next"] is None
        return {machine["name"]: machine for machine in page["machines"]}

    def poll(self, machine: str) -> None:
        """Ask as a machine does: from then on it is given notice."""
        where = urlsplit(self.ready["machines"][machine])
        connection = HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE_SECONDS)
        query = "/metadata/scheduledevents?api-version=2020-07-01"
        connection.request("GET", query, headers={"Metadata": "true"})
        connection.getresponse().read()
        connection.close()

    def _ask(self, known: Pass, url: str, method: str = "GET", body: object = None) -> Reply:
        split = urlsplit(url)
        connection = self._connection(known, f"{split.scheme}://{split.netloc}")
        headers = {"Authorization": f"Bearer {known.token}", "Content-Type": "application/json"}
        text = b"" if body is None else json.dumps(body).encode()
        try:
            connection.request(method, f"{split.path}?{split.query}", text, headers)
            answer = connection.getresponse()
            got = answer.read()
        except (OSError, HTTPException) as error:
            raise Dead from error
        return Reply(answer.status, answer.headers.get("Azure-AsyncOperation", ""), got)

    def _connection(self, known: Pass, base: str) -> HTTPConnection:
        if base not in self._kept:
            split = urlsplit(base)
            host, port = split.hostname or "", split.port
            self._kept[base] = (
                HTTPSConnection(host, port, timeout=PATIENCE_SECONDS, context=known.tls)
                if split.scheme == "https"
                else HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
            )
        return self._kept[base]

    # --- Ending ---

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
        code = self.process.wait(timeout=PATIENCE_SECONDS)
        self._close()
        assert self.process.stdout
        self.process.stdout.close()
        return code

    def _close(self) -> None:
        for connection in self._kept.values():
            connection.close()
