"""libvirt for tests: Python's own if it is installed, else Debian's, and domains to do things to.

`test:///default` is a hypervisor inside libvirt that keeps its domains in the memory of whoever
opened it. All that is opened in one process is the same one, and is forgotten when all are closed.
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
from tests.fixtures.waiting import wait_until_async

URI = "test:///default"

# By libvirt's numbers.
_EVENTS = ("defined", "undefined", "started", "suspended", "resumed", "stopped", "shut-down")
_STATES = ("none", "running", "blocked", "paused", "ending", "off", "crashed", "asleep")

_DOMAIN = """
<domain type="test"><name>{name}</name><memory>8192</memory><os><type>hvm</type></os>
<metadata>{metadata}</metadata></domain>
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
    """The element by which a domain says which machine it is."""
    said = f'scope="{scope}" name="{name}"' if scope else f'name="{name}"'
    return f'<fairwarning:machine xmlns:fairwarning="{MACHINE}" {said}/>'


class Hypervisor:
    """A connection of the test's own, and what happens there."""

    def __init__(self, uri: str = URI) -> None:
        library()  # before the first connection: without it there are no events
        self.connection = libvirt.open(uri)
        self._happened: list[tuple[str, str]] = []  # with whose it was: names are used again
        self._made: dict[str, tuple[str, int]] = {}
        self.connection.domainEventRegisterAny(
            None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._note, None
        )

    def _note(self, _connection: object, domain: Any, event: int, *_: object) -> None:  # noqa: ANN401
        self._happened.append((domain.UUIDString(), _EVENTS[event]))

    def define(self, name: str, metadata: str = "", *, running: bool = True) -> Any:  # noqa: ANN401
        """A domain."""
        domain = self.connection.defineXML(_DOMAIN.format(name=name, metadata=metadata))
        if running:
            domain.create()
        self._made[name] = (domain.UUIDString(), 2 if running else 1)
        return domain

    def transient(self, name: str) -> Any:  # noqa: ANN401
        """A domain that is gone when it is off."""
        domain = self.connection.createXML(_DOMAIN.format(name=name, metadata=""))
        self._made[name] = (domain.UUIDString(), 1)
        return domain

    def domain(self, name: str = "web_0") -> Any:  # noqa: ANN401
        """As it is now."""
        return self.connection.lookupByName(name)

    def state(self, name: str = "web_0") -> str:
        return _STATES[self.domain(name).state()[0]]

    def record(self, name: str = "web_0") -> DomainRecord:
        """What our driver has written."""
        return read(self.domain(name).metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, RECORD))

    def names(self) -> list[str]:
        return sorted(domain.name() for domain in self.connection.listAllDomains())

    async def history(self, name: str = "web_0") -> str:
        """All that happened to a domain since it was made."""
        mark = self.define("mark", running=False)
        mark.undefine()
        heard = (mark.UUIDString(), "undefined")
        await wait_until_async(
            lambda: heard in self._happened, "the last that happened is heard of"
        )
        uuid, made = self._made[name]
        return " ".join([event for one, event in self._happened if one == uuid][made:])


@contextmanager
def open_hypervisor(uri: str = URI) -> Iterator[Hypervisor]:
    """One without a single domain, as long as it is open."""
    found = Hypervisor(uri)
    try:
        _clear(found)
        yield found
    finally:
        _clear(found)
        found.connection.close()


def _clear(found: Hypervisor) -> None:
    for domain in found.connection.listAllDomains():
        if domain.isActive():
            domain.destroy()
    for domain in found.connection.listAllDomains():
        domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE)


def impact(kind: str, machine: str = "web_0", seconds: int = -1, number: int = 1) -> Impact:
    """One on a machine of the scope `web`."""
    return Impact(
        id=f"event-{number}:{machine}",
        scope="web",
        machine=machine,
        kind=ImpactKind(kind),
        operation="operation",
        duration_seconds=seconds,
    )


class LibvirtDriverHarness:
    """A libvirt driver, and what it reported."""

    def __init__(self, driver: LibvirtDriver) -> None:
        self.driver = driver
        self.reports: list[tuple[str, str]] = []

    def give(self, *impacts: Impact) -> None:
        """Hand them over."""
        for one in impacts:
            self.driver.carry_out(one, lambda given, error: self.reports.append((given.id, error)))

    async def over(self, *impacts: Impact) -> str:
        """Hand them over, and wait until all are over; what went wrong."""
        so_far = len(self.reports)
        self.give(*impacts)
        await wait_until_async(lambda: len(self.reports) == so_far + len(impacts), "all are over")
        return "; ".join(filter(None, (error for _, error in self.reports[so_far:])))


@asynccontextmanager
async def libvirt_harness(
    uri: str = URI,
    *,
    claim_seconds: float = 0.4,
    timeout_seconds: float = 20,
    destination: str = "",
) -> AsyncIterator[LibvirtDriverHarness]:
    """A driver with short times."""
    driver = LibvirtDriver(
        uri,
        destination=destination,
        grace_seconds=5,
        timeout_seconds=timeout_seconds,
        claim_seconds=claim_seconds,
    )
    try:
        yield LibvirtDriverHarness(driver)
    finally:
        await driver.close()
