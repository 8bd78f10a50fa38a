"""A harness for the libvirt driver: libvirt's bindings, a hypervisor, and domains.

`test:///default` is a mock hypervisor inside libvirt that keeps its domains in the memory of the
process. All connections of one process share it, and its state is lost when all are closed.
"""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any

from fairwarning.core.model import Impact, ImpactKind
from fairwarning.machines.libvirt.driver import LibvirtDriver
from fairwarning.machines.libvirt.host import library
from fairwarning.machines.libvirt.record import MACHINE, RECORD, DomainRecord, read
from tests.fixtures.requirements import DEBIAN_PACKAGES, LIBVIRT_MODULES
from tests.fixtures.waiting import using, wait_until_async

URI = "test:///default"

# Indexed by libvirt's constants.
_EVENTS = ("defined", "undefined", "started", "suspended", "resumed", "stopped", "shut-down")
_STATES = ("none", "running", "blocked", "paused", "ending", "off", "crashed", "asleep")

_DOMAIN = """
<domain type="test"><name>{name}</name><memory>8192</memory><os><type>hvm</type></os>
<metadata>{metadata}</metadata>
<devices><interface type="network"><source network="default"/></interface></devices></domain>
"""


def _load() -> Any:  # noqa: ANN401  (libvirt has no types)
    try:
        return import_module("libvirt")
    except ImportError:
        pass
    for name in LIBVIRT_MODULES:
        spec = PathFinder.find_spec(name, [str(DEBIAN_PACKAGES)])
        if spec is None or spec.loader is None:
            return None
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules["libvirt"]


libvirt = _load()


def machine_element(scope: str, name: str) -> str:
    """Return the metadata element that says which machine a domain is."""
    names = f'scope="{scope}" name="{name}"' if scope else f'name="{name}"'
    return f'<fairwarning:machine xmlns:fairwarning="{MACHINE}" {names}/>'


class Hypervisor:
    """A connection for the test, and the lifecycle events of the domains."""

    def __init__(self, uri: str = URI) -> None:
        library()  # before the first connection: without it there are no events
        self.connection = libvirt.open(uri)
        self._events: list[tuple[str, str]] = []  # UUID and event, as names are reused
        self._created: dict[str, tuple[str, int]] = {}  # UUID, and the number of events so far
        self.connection.domainEventRegisterAny(
            None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._record, None
        )

    def _record(self, _connection: object, domain: Any, event: int, *_: object) -> None:  # noqa: ANN401
        self._events.append((domain.UUIDString(), _EVENTS[event]))

    def define(self, name: str, metadata: str = "", *, running: bool = True) -> Any:  # noqa: ANN401
        domain = self.connection.defineXML(_DOMAIN.format(name=name, metadata=metadata))
        if running:
            domain.create()
        self._created[name] = (domain.UUIDString(), 2 if running else 1)
        return domain

    def transient(self, name: str) -> Any:  # noqa: ANN401
        """Create a domain that ceases to exist when it is off."""
        domain = self.connection.createXML(_DOMAIN.format(name=name, metadata=""))
        self._created[name] = (domain.UUIDString(), 1)
        return domain

    def domain(self, name: str = "web_0") -> Any:  # noqa: ANN401
        return self.connection.lookupByName(name)

    def state(self, name: str = "web_0") -> str:
        return _STATES[self.domain(name).state()[0]]

    def record(self, name: str = "web_0") -> DomainRecord:
        """Return the record that the driver has written."""
        return read(self.domain(name).metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, RECORD))

    def names(self) -> list[str]:
        return sorted(domain.name() for domain in self.connection.listAllDomains())

    async def history(self, name: str = "web_0") -> str:
        """Return all lifecycle events of a domain after its creation."""
        marker = self.define("marker", running=False)
        marker.undefine()
        last = (marker.UUIDString(), "undefined")
        await wait_until_async(lambda: last in self._events, "the last event is received")
        uuid, created = self._created[name]
        events = [event for of, event in self._events if of == uuid]
        return " ".join(events[created:])


@contextmanager
def open_hypervisor(uri: str = URI) -> Iterator[Hypervisor]:
    """Provide a hypervisor without any domain."""
    hypervisor = Hypervisor(uri)
    try:
        _clear(hypervisor)
        yield hypervisor
    finally:
        _clear(hypervisor)
        hypervisor.connection.close()


def _clear(hypervisor: Hypervisor) -> None:
    for domain in hypervisor.connection.listAllDomains():
        if domain.isActive():
            domain.destroy()
    for domain in hypervisor.connection.listAllDomains():
        domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE)


def impact(kind: str, machine: str = "web_0", seconds: int = -1, number: int = 1) -> Impact:
    """Return an impact on a machine of the scope `web`."""
    return Impact(
        id=f"event-{number}:{machine}",
        scope="web",
        machine=machine,
        kind=ImpactKind(kind),
        operation="operation",
        duration_seconds=seconds,
    )


class LibvirtHarness:
    """A libvirt driver and its reports."""

    def __init__(self, driver: LibvirtDriver) -> None:
        self.driver = driver
        self.reports: list[tuple[str, str]] = []

    def submit(self, *impacts: Impact) -> None:
        for impact in impacts:
            self.driver.carry_out(
                impact, lambda reported, error: self.reports.append((reported.id, error))
            )

    async def execute(self, *impacts: Impact) -> str:
        """Hand impacts to the driver, wait for all reports and return their errors."""
        before = len(self.reports)
        self.submit(*impacts)
        await wait_until_async(lambda: len(self.reports) == before + len(impacts), "all are over")
        return "; ".join(filter(None, (error for _, error in self.reports[before:])))


@asynccontextmanager
async def libvirt_harness(
    uri: str = URI,
    *,
    claim_seconds: float = 0.4,
    timeout_seconds: float = 20,
    grace_seconds: float = 5,
    destination: str = "",
) -> AsyncIterator[LibvirtHarness]:
    """Provide a driver with short time limits."""
    driver = LibvirtDriver(
        uri,
        destination=destination,
        grace_seconds=grace_seconds,
        timeout_seconds=timeout_seconds,
        claim_seconds=claim_seconds,
    )
    try:
        yield LibvirtHarness(driver)
    finally:
        await driver.close()


@asynccontextmanager
async def _hypervisor_and_driver() -> AsyncIterator[tuple[Hypervisor, LibvirtHarness]]:
    with open_hypervisor() as hypervisor:
        async with libvirt_harness() as driver:
            yield hypervisor, driver


with_driver = using(_hypervisor_and_driver, 2)
"""Run a coroutine test with a hypervisor without any domain, and a driver."""
