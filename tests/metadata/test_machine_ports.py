"""A port for each machine, where machines cannot have addresses of their own (M22)."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fairwarning.console.readers import Reader
from fairwarning.core.commands import Delete
from fairwarning.metadata.listeners import PortRange
from fairwarning.server import reach as reach_module
from fairwarning.server.reach import MachinePorts, Reach, ReachWay
from fairwarning.store.memory import MemoryStore
from tests.fixtures.endpoint import EndpointHarness
from tests.fixtures.files import no_free_descriptor
from tests.fixtures.fleet import standalone
from tests.fixtures.http import fetch
from tests.fixtures.loopback import HERE, free_range, is_free

pytestmark = pytest.mark.spec("M22")

NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"


@contextmanager
def opened(
    endpoint: EndpointHarness, ports: PortRange, host: str = HERE, *, shared: bool = False
) -> Iterator[Reach]:
    """Ports for the machines of an endpoint, on its loop."""

    async def start() -> tuple[Reach, MachinePorts]:
        reach = Reach(host, ports, "", endpoint.fleet)
        listeners = reach.machine_ports(endpoint.server, shared=shared)
        assert reach.way is ReachWay.PORT
        assert listeners is not None
        await listeners.open_all()
        return reach, listeners

    reach, listeners = endpoint.run(start())
    try:
        yield reach
    finally:
        endpoint.call(listeners.close_all)


def urls(endpoint: EndpointHarness, reach: Reach) -> dict[str, str | None]:
    """The URL of each machine."""

    async def read() -> dict[str, str | None]:
        locations = await endpoint.fleet.reader.list_machines(0, 1000)
        found = await reach.urls(locations, Reader())
        names = (location.machine.name for location in locations)
        return dict(zip(names, found, strict=True))

    return endpoint.run(read())


def name_at(url: str | None) -> str:
    """The name of the machine that a URL answers as."""
    assert url is not None
    return fetch(f"{url}{NAME}", headers={"Metadata": "true"}).text


def delete(endpoint: EndpointHarness, name: str) -> None:
    """Delete a machine of a scope of its own."""
    endpoint.do(Delete(scope=name, machines=(name,), operation=f"delete {name}"))
    endpoint.advance(3600)


def test_a_port_is_the_same_after_a_restart() -> None:
    """It follows from the number of the machine, not from the machines that still exist."""
    ports, store = free_range(3), MemoryStore()
    with EndpointHarness(store=store) as endpoint:
        for name in ("one", "two", "three"):
            endpoint.create(standalone(name))
        with opened(endpoint, ports) as reach:
            before = urls(endpoint, reach)
        delete(endpoint, "one")
        with opened(endpoint, ports) as reach:
            assert urls(endpoint, reach) == {name: before[name] for name in ("two", "three")}


def test_the_port_of_a_deleted_machine_is_closed() -> None:
    """A machine of the same name that is created again has a port of its own."""
    ports = free_range(3)
    with EndpointHarness() as endpoint:
        endpoint.create(standalone("vm"))
        endpoint.create(standalone("other"))
        with opened(endpoint, ports) as reach:
            before = urls(endpoint, reach)["vm"]
            delete(endpoint, "vm")
            endpoint.wait_until(lambda: is_free(ports.first))
            endpoint.create(standalone("vm"))
            after = urls(endpoint, reach)["vm"]
            assert after != before
            assert name_at(after) == "vm"


def test_a_port_that_another_program_uses(caplog: pytest.LogCaptureFixture) -> None:
    """That machine has no URL, and the log says why; the others have theirs."""
    ports = free_range(2)
    with EndpointHarness() as endpoint, socket.create_server((HERE, ports.first)):
        endpoint.make("db", 2)
        with opened(endpoint, ports) as reach:
            found = urls(endpoint, reach)
    assert found == {"db_0": None, "db_1": f"http://{HERE}:{ports.last}"}
    assert f"no port for machine db/db_0: cannot listen on {HERE}:{ports.first}" in caplog.text


def test_a_range_with_too_few_ports(caplog: pytest.LogCaptureFixture) -> None:
    """The oldest machines have them. One line of the log says how many fit and what to do."""
    ports = free_range(2)
    with EndpointHarness() as endpoint:
        endpoint.make("db", 5)
        with opened(endpoint, ports) as reach:
            found = urls(endpoint, reach)
            assert [name for name, url in found.items() if url] == ["db_0", "db_1"]
            assert [name_at(found[name]) for name in ("db_0", "db_1")] == ["db_0", "db_1"]
    (line,) = [line for line in caplog.text.splitlines() if "no port" in line]
    assert "db/db_2 and 2 others" in line
    assert "enough for 2 machines; give a larger range with --machine-ports" in line


def test_too_few_descriptors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Connections keep theirs. The log says how many machines have a port and what to do."""
    ports = free_range(3)
    with EndpointHarness() as endpoint:
        reserved = endpoint.server.max_connections + reach_module._OTHER_FILES
        monkeypatch.setattr(reach_module, "raise_file_limit", lambda _: reserved + 1)
        endpoint.make("db", 3)
        with opened(endpoint, ports) as reach:
            assert [name for name, url in urls(endpoint, reach).items() if url] == ["db_0"]
    assert "leaves room for the ports of 1 machines; raise it with `ulimit -n`" in caplog.text


def test_no_free_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint reports it; later machines have ports, and this one when it can (IB5)."""
    ports = free_range(2)
    with EndpointHarness() as endpoint, opened(endpoint, ports) as reach:
        monkeypatch.setattr(reach_module, "raise_file_limit", lambda _: sys.maxsize)
        with no_free_descriptor():
            endpoint.create(standalone("one"))
            endpoint.wait_until(lambda: endpoint.server.health().problem)
        assert "1 machines: cannot open it: Too many" in endpoint.server.health().problem
        endpoint.create(standalone("two"))
        assert name_at(urls(endpoint, reach)["two"]) == "two"
        assert reach._machine_ports
        endpoint.call(reach._machine_ports._retry)
        endpoint.wait_until(lambda: not endpoint.server.health().problem)
        assert name_at(urls(endpoint, reach)["one"]) == "one"


def test_several_workers_share_the_ports() -> None:
    """Each of them answers; a connection goes to one of them."""
    ports = free_range(1)
    with EndpointHarness() as one, EndpointHarness() as two:
        for endpoint in (one, two):
            endpoint.make("db", 1)
        with opened(one, ports, shared=True) as reach:
            with opened(two, ports, shared=True) as other:
                assert urls(one, reach) == urls(two, other)
                url = urls(one, reach)["db_0"]
                assert {name_at(url) for _ in range(20)} == {"db_0"}
            assert name_at(url) == "db_0"  # by the one that is left
