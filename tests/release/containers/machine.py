"""A container that acts as a machine of the fleet: the service knows it by its address."""

import json
from typing import Any
from urllib.parse import urlsplit

from tests.fixtures.endpoint import POLL_TARGET
from tests.release.containers.podman import Podman

# Podman's name server drops queries while it registers or removes a container, so the script
# resolves the name until there is an answer. It sends the request once.
_REQUEST = """
import contextlib, http.client, socket, sys
host, port, path, body = sys.argv[1:]
address = ""
while not address:
    with contextlib.suppress(OSError):
        address = socket.gethostbyname(host)
connection = http.client.HTTPConnection(address, int(port), timeout=10)
headers = {"Host": f"{host}:{port}", "Metadata": "true"}
connection.request("POST" if body else "GET", path, body or None, headers)
answer = connection.getresponse()
text = answer.read().decode()
sys.exit(f"{answer.status} {text}" if answer.status != 200 else print(text))
"""


class Machine:
    """Polls and approves from inside the container."""

    def __init__(self, podman: Podman, container: str) -> None:
        self._podman = podman
        self._container = container

    def poll(self, endpoint: str) -> Any:  # noqa: ANN401  (a document)
        """Return the document that the machine reads."""
        return json.loads(self._request(endpoint, ""))

    def events(self, endpoint: str) -> list[tuple[str, str]]:
        """Return type and status of the machine's events."""
        listed = self.poll(endpoint)["Events"]
        return [(event["EventType"], event["EventStatus"]) for event in listed]

    def approve(self, endpoint: str) -> None:
        """Approve the machine's only event."""
        (event,) = self.poll(endpoint)["Events"]
        self._request(endpoint, json.dumps({"StartRequests": [{"EventId": event["EventId"]}]}))

    def _request(self, endpoint: str, body: str) -> str:
        where = urlsplit(endpoint)
        words = (str(where.hostname), str(where.port), POLL_TARGET, body)
        return self._podman.run(
            "podman", "exec", self._container, "python3", "-c", _REQUEST, *words
        )
