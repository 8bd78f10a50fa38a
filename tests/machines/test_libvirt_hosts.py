"""The libvirt driver with two hosts: finding a domain on either, and migrations between them."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from fairwarning.machines.libvirt import host as hosts
from fairwarning.machines.libvirt.host import LibvirtHost
from tests.fixtures.requirements import needs_libvirt, needs_libvirtd
from tests.fixtures.waiting import LOOK_SECONDS, wait_until_async
from tests.machines.libvirt_daemon import daemon
from tests.machines.libvirt_harness import (
    URI,
    Hypervisor,
    impact,
    libvirt,
    libvirt_harness,
    open_hypervisor,
)

pytestmark = needs_libvirt


def _uri(path: Path) -> str:
    """Return the URI of a libvirtd with this socket."""
    return f"test+unix:///default?socket={path}"


# --- A host that cannot be reached ---


@pytest.mark.spec("E9")
async def test_a_domain_on_the_second_host_while_the_first_is_down(tmp_path: Path) -> None:
    """The driver executes its impacts."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        async with libvirt_harness(_uri(tmp_path / "down"), destination=URI) as driver:
            assert await driver.execute(impact("reboot")) == ""
            assert await hypervisor.history() == "stopped started"
            assert await driver.execute(impact("delete", number=2)) == ""
        assert hypervisor.names() == []


async def test_a_domain_on_the_second_host_while_the_first_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver does not wait until the connection fails, which may take minutes."""
    monkeypatch.setattr(hosts, "_WAIT_SECONDS", 0.2)
    with closing(socket.socket(socket.AF_UNIX)) as silent, open_hypervisor() as hypervisor:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        hypervisor.define("web_0")
        async with libvirt_harness(_uri(tmp_path / "silent"), destination=URI) as driver:
            assert await driver.execute(impact("stop")) == ""
        assert hypervisor.state() == "off"


@pytest.mark.spec("E9")
@pytest.mark.parametrize(("kind", "announced", "limit"), [("stop", -1, 1), ("delete", 1, 2)])
async def test_a_domain_that_may_be_on_the_host_that_is_down(
    kind: str, announced: int, limit: int, tmp_path: Path
) -> None:
    """Whether it exists is unknown, so the driver keeps trying, and reports why it failed.

    Its time limit is never shorter than the announced duration.
    """
    uri = _uri(tmp_path / "down")
    with open_hypervisor():
        async with libvirt_harness(uri, destination=URI, timeout_seconds=1) as driver:
            error = await driver.execute(impact(kind, seconds=announced))
        assert error.startswith(f"not done within {limit} s: libvirt at {uri} cannot be reached: ")


async def test_a_host_that_does_not_answer_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds few threads, however often the driver tries; it is used once it answers (IB5)."""
    monkeypatch.setattr(hosts, "_OPEN_SECONDS", 0.01)
    monkeypatch.setattr(hosts, "_WAIT_SECONDS", 0.02)
    answers, attempts = _answers_late(monkeypatch)
    closed, close = [], libvirt.virConnect.close

    def note_thread(connection: Any) -> int:  # noqa: ANN401
        closed.append(threading.current_thread())
        return int(close(connection))

    monkeypatch.setattr(libvirt.virConnect, "close", note_thread)
    host = LibvirtHost(URI)
    for _ in range(50):
        with pytest.raises(hosts.RetryLater, match="no answer"):
            await host.connection()
    assert len(attempts) < 15
    answers.set()
    while not await _connects(host):
        pass
    await host.close()
    await wait_until_async(lambda: len(closed) == len(attempts), "no connection is left")
    assert threading.current_thread() not in closed


async def test_how_long_an_attempt_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time twice as long, up to a limit; after an answer as long as the first one."""
    monkeypatch.setattr(hosts, "_OPEN_SECONDS", 0.01)
    monkeypatch.setattr(hosts, "_LONGEST_OPEN_SECONDS", 0.03)
    answers, _ = _answers_late(monkeypatch)
    host = LibvirtHost(URI)
    for seconds in (0.01, 0.02, 0.03, 0.03):
        with pytest.raises(hosts.RetryLater, match=f"no answer in {seconds:g} s"):
            await host.connection()
    answers.set()
    while not await _connects(host):
        pass
    assert host._open_seconds == 0.01
    await host.close()


async def test_calls_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """They fail, and later calls go on."""
    host = LibvirtHost(URI)
    connection = await host.connection()
    with monkeypatch.context() as patch:
        patch.setattr(hosts, "Thread", _no_thread)
        for _ in range(hosts._CALLS):
            with pytest.raises(RuntimeError, match="can't start"):
                await host.call(connection, connection.getHostname)
    assert await host.name()
    await host.close()


def _no_thread(**_: object) -> None:
    raise RuntimeError("can't start new thread")


def _answers_late(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, list[str]]:
    """Have hosts answer once the event is set; return it, and the URI of each attempt."""
    answers, connect = threading.Event(), libvirt.open
    attempts: list[str] = []

    def connect_late(uri: str) -> Any:  # noqa: ANN401
        attempts.append(uri)
        answers.wait()
        return connect(uri)

    monkeypatch.setattr(libvirt, "open", connect_late)
    return answers, attempts


async def _connects(host: LibvirtHost) -> bool:
    with suppress(hosts.RetryLater):
        return bool(await host.connection())
    return False


# --- Migrations ---


class SlowMigrations:
    """Replaces migrations, which `test:///default` does not support.

    A migration takes until the test releases it or the driver aborts it. With `unstoppable` an
    abort comes too late: the migration completes.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, unstoppable: bool = False) -> None:
        self.unstoppable = unstoppable
        self.begun = 0
        self.most_at_once = 0
        self.aborted = 0
        self._running: set[str] = set()
        self.release = threading.Event()
        self._aborts: dict[str, threading.Event] = {}
        methods: dict[str, Callable[..., object]]
        methods = {"migrate3": self._migrate, "abortJob": self._abort, "jobStats": self._job}
        for name, function in methods.items():
            monkeypatch.setattr(libvirt.virDomain, name, _as_method(function))
        monkeypatch.setattr(LibvirtHost, "name", _uri_as_name)

    def _migrate(self, domain: Any, destination: Any, *_: object) -> None:  # noqa: ANN401
        abort = self._aborts[domain.name()] = threading.Event()
        self.begun += 1
        self._running.add(domain.name())
        self.most_at_once = max(self.most_at_once, len(self._running))
        while not self.release.is_set() and not abort.wait(LOOK_SECONDS):
            pass
        self._running.remove(domain.name())
        if abort.is_set() and not self.unstoppable:
            error = libvirt.libvirtError("migration: canceled by client")
            error.err = (libvirt.VIR_ERR_OPERATION_ABORTED, 0, "canceled by client")
            raise error
        destination.defineXML(domain.XMLDesc()).create()
        domain.destroy()
        domain.undefine()

    def _abort(self, domain: Any) -> None:  # noqa: ANN401
        self.aborted += 1
        self._aborts[domain.name()].set()

    def _job(self, domain: Any) -> dict[str, int]:  # noqa: ANN401
        migrating = libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT
        return {"operation": migrating} if domain.name() in self._aborts else {}


def _as_method(function: Callable[..., object]) -> Callable[..., object]:
    """Return a function that a class binds to its instances, unlike a bound method."""

    def method(domain: object, *args: object) -> object:
        return function(domain, *args)

    return method


async def _uri_as_name(host: LibvirtHost) -> str:
    """Return a name for a host: those of the tests run on one system and have its name."""
    return host.uri


@contextmanager
def _two_hosts() -> Iterator[tuple[Hypervisor, Hypervisor, str]]:
    """Provide a host inside this process, and another one with its URI."""
    with daemon() as libvirtd:
        uri = libvirtd.uri("test", "default")
        with open_hypervisor() as here, open_hypervisor(uri) as there:
            yield here, there, uri


@needs_libvirtd
@pytest.mark.spec("E9")
async def test_a_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The domain moves once, however often the impact is handed over, and back with the next."""
    migrations = SlowMigrations(monkeypatch)
    migrations.release.set()
    with _two_hosts() as (here, there, uri):
        here.define("web_0")
        async with libvirt_harness(destination=uri) as driver:
            assert await driver.execute(impact("redeploy"), impact("redeploy")) == ""
            assert (here.names(), there.names(), migrations.begun) == ([], ["web_0"], 1)
            assert await driver.execute(impact("redeploy", number=2)) == ""
            assert (here.names(), there.names(), migrations.begun) == (["web_0"], [], 2)
        assert migrations.aborted == 0


@needs_libvirtd
async def test_a_migration_that_takes_too_long_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported as failed, so it must not complete later."""
    migrations = SlowMigrations(monkeypatch)
    with _two_hosts() as (here, there, uri):
        here.define("web_0")
        async with libvirt_harness(destination=uri, timeout_seconds=3) as driver:
            error = await driver.execute(impact("redeploy"))
            assert error == (
                f"the migration of domain web_0 to {uri} took too long and was aborted; "
                f"the domain is still at {URI}"
            )
            assert (here.state(), here.record().owner, there.names()) == ("running", "", [])
            migrations.release.set()
            assert await driver.execute(impact("redeploy", number=2)) == ""
        assert (here.names(), there.names()) == ([], ["web_0"])


@needs_libvirtd
async def test_a_migration_that_completes_while_it_is_aborted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is reported as done, however late."""
    migrations = SlowMigrations(monkeypatch, unstoppable=True)
    with _two_hosts() as (here, there, uri):
        here.define("web_0")
        async with libvirt_harness(destination=uri, timeout_seconds=3) as driver:
            assert await driver.execute(impact("redeploy")) == ""
        assert (here.names(), there.names(), migrations.begun) == ([], ["web_0"], 1)
        assert there.record().done == ("event-1:web_0",)


@needs_libvirtd
async def test_many_migrations_that_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than four run at once, so that libvirtd still reads the requests to abort them."""
    migrations = SlowMigrations(monkeypatch)
    names = [f"web_{number}" for number in range(20)]
    with _two_hosts() as (here, there, uri):
        for name in names:
            here.define(name)
        async with libvirt_harness(destination=uri, timeout_seconds=3) as driver:
            await driver.execute(*(impact("redeploy", name) for name in names))
            assert all(error for _, error in driver.reports)
            assert migrations.most_at_once <= 4
            migrations.release.set()
        assert (len(here.names()), there.names()) == (20, [])


@needs_libvirtd
async def test_a_service_that_stops_during_a_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The migration is aborted, and the next service starts it again."""
    migrations = SlowMigrations(monkeypatch)
    with _two_hosts() as (here, there, uri):
        here.define("web_0")
        async with libvirt_harness(destination=uri) as driver:
            driver.submit(impact("redeploy"))
            await wait_until_async(lambda: migrations.begun == 1, "it has begun")
        assert (migrations.aborted, driver.reports, there.names()) == (1, [], [])
        migrations.release.set()
        async with libvirt_harness(destination=uri) as driver:
            assert await driver.execute(impact("redeploy")) == ""
        assert (here.names(), there.names()) == ([], ["web_0"])
