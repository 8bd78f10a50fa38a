"""Links of the control plane lead to the service itself, whatever Host a client sends.

A request that a proxy could read in another way is refused.
"""

import ssl
from collections.abc import Iterator, Mapping
from http.client import HTTPSConnection
from itertools import count
from urllib.parse import urlsplit

import pytest

from tests.fixtures.arm import SUBSCRIPTION, VERSION
from tests.fixtures.http import Response, send
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS

FLEET = """
[arm]
hosts = ["arm.example", "*.clouds.example"]

[[machine]]
name = "vm"
count = 201
"""
MACHINES = f"{SUBSCRIPTION}/resourceGroups/fairwarning/providers/Microsoft.Compute/virtualMachines"


class ArmClient:
    """A client of a running service that sends any Host header, over TLS."""

    def __init__(self, service: ServiceProcess) -> None:
        self.url: str = service.ready["arm"]
        self._token = service.ready["token"]
        self._machines = count()
        self._tls = ssl.create_default_context(cafile=service.ready["ca"])

    def request(
        self, method: str, path: str, host: str, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Send a request."""
        arm = urlsplit(self.url)
        assert arm.hostname
        headers = {"Host": host, "Authorization": f"Bearer {self._token}", **(headers or {})}
        connection = HTTPSConnection(
            arm.hostname, arm.port, timeout=LIMIT_SECONDS, context=self._tls
        )
        body = b"2\r\n{}\r\n0\r\n\r\n" if "Transfer-Encoding" in headers else None
        try:
            return send(connection, method, f"{path}?api-version={VERSION}", headers, body)
        finally:
            connection.close()

    def links(self, host: str) -> set[str]:
        """The origins of all links that a client with this Host header is given."""
        accepted = self.request("POST", f"{MACHINES}/vm_{next(self._machines)}/restart", host)
        listed = self.request("GET", MACHINES, host)
        cloud = self.request("GET", "/metadata/endpoints", host)
        links = (
            accepted.headers["location"],
            accepted.headers["azure-asyncoperation"],
            listed.json["nextLink"],
            cloud.json["resourceManager"],
            cloud.json["authentication"]["loginEndpoint"],
        )
        return {f"https://{urlsplit(link).netloc}" for link in links}


FOREIGN = (
    "evil.example", "evil.example:443", "127.0.0.1.evil.example", "arm.example.evil", "192.0.2.1",
    "[2001:db8::1]:8171", "a.b.clouds.example", "clouds.example",
)  # fmt: skip
OWN = (
    "localhost", "LocalHost:8443", "127.0.0.1:8443", "[::1]:8171", "arm.example", "ARM.example:443",
    "eu.clouds.example", "arm.example.",
)  # fmt: skip


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArmClient]:
    """A client of one service for all tests of this module."""
    data = tmp_path_factory.mktemp("service") / "data"
    with ServiceProcess(data, "--memory", fleet=FLEET) as service:
        yield ArmClient(service)


@pytest.mark.spec("C1", "C2", "C3")
def test_only_an_own_host_is_in_links(client: ArmClient) -> None:
    """With the port that the client used; else the address that the client is connected to."""
    links = {host: client.links(host) for host in (*FOREIGN, *OWN)}
    own = {host: {f"https://{host}"} for host in OWN}
    assert links == {host: {client.url} for host in FOREIGN} | own


@pytest.mark.spec("C3")
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"host": "localhost"}, "InvalidHost"),  # for the second time
        ({"Transfer-Encoding": "gzip, chunked"}, "InvalidRequestContent"),
    ],
)
@pytest.mark.parametrize("path", [f"{MACHINES}/vm_0/reapply", "/adfs/oauth2/token"])
def test_a_request_with_two_meanings(
    client: ArmClient, headers: dict[str, str], code: str, path: str
) -> None:
    """It is refused, also before the login; a body in chunks is read."""
    response = client.request("POST", path, "localhost", headers)
    assert (response.status, response.error_code) == (400, code)
    chunked = {"Transfer-Encoding": "Chunked"}
    assert client.request("POST", f"{MACHINES}/vm_0/reapply", "localhost", chunked).status == 200
