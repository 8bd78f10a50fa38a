"""Guests of a host: networks of their own, each connected to this one by a cable.

Use them inside `private_network.run_inside`, as root, where `ip` is installed.
"""

import json
import subprocess
import sys
from typing import Any, Self

from tests.fixtures.requirements import IP

HOST = "10.0.0.1"
"""The address of this end of every cable."""

_PROGRAM = """
import ctypes, json, sys
from http.client import HTTPConnection
assert ctypes.CDLL(None).unshare(0x40000000) == 0  # a network of its own
print("ready", flush=True)
for line in sys.stdin:
    host, port, source, method, target, body = json.loads(line)
    connection = HTTPConnection(host, port, timeout=300, source_address=(source, 0))
    try:
        connection.request(method, target, body, {"Metadata": "true"})
        answer = connection.getresponse()
        reply = [answer.status, answer.read().decode()]
    except OSError as error:
        reply = [0, str(error)]
    connection.close()
    print(json.dumps(reply), flush=True)
"""


def ip(words: str) -> None:
    """Run `ip` with these arguments."""
    subprocess.run([str(IP), *words.split()], check=True)


class Guest:
    """A network with one interface, and a process in it that sends requests."""

    def __init__(self, number: int, *addresses: str) -> None:
        self.addresses = addresses
        self._cable = f"cable{number}"
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        assert self._read() == "ready\n"
        guest = self._process.pid
        ip(f"link add {self._cable} type veth peer name eth0 netns {guest}")
        ip(f"address add {HOST}/32 dev {self._cable}")
        ip(f"link set {self._cable} up")
        for address in self.addresses:
            ip(f"route add {address}/32 dev {self._cable}")
            self._inside(f"address add {address}/32 dev eth0")
        self._inside("link set eth0 up")
        self._inside(f"route add {HOST}/32 dev eth0 src {self.addresses[0]}")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def request(
        self, port: int, target: str, body: str | None = None, *, source: str = ""
    ) -> tuple[int, Any]:
        """Send a request to the host; return the status and the JSON of the answer."""
        method = "GET" if body is None else "POST"
        words = [HOST, port, source or self.addresses[0], method, target, body]
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        status, text = json.loads(self._read())
        return status, json.loads(text) if text and status else text

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def _inside(self, words: str) -> None:
        nsenter = ["nsenter", "--net", f"--target={self._process.pid}"]
        subprocess.run([*nsenter, str(IP), *words.split()], check=True)
