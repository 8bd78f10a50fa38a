"""What impacts are to a real guest, with the driver alone."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fairwarning.core.model import Impact, ImpactKind
from fairwarning.machines.libvirt.driver import LibvirtDriver
from tests.fixtures.requirements import needs_root
from tests.machines.libvirt_daemon import daemon
from tests.qemu.guest import SETTINGS, Guest, guest, guest_of

NOBODY = ("127.0.0.1", 9)  # where no service is: the guest gets no answer, and lives on


class Carrier:
    """A driver, and how the impacts went."""

    def __init__(self, *uris: str) -> None:
        self._uris = uris
        self._count = 0

    def carry_out(self, kind: str, seconds: int = -1) -> str:
        """To its end; empty, or what went wrong."""
        self._count += 1
        impact = Impact(
            id=f"event-{self._count}:vm",
            scope="vm",
            machine="vm",
            kind=ImpactKind(kind),
            operation="operation",
            duration_seconds=seconds,
        )
        return asyncio.run(self._carry_out(impact))

    async def _carry_out(self, impact: Impact) -> str:
        uri, destination = (*self._uris, "")[:2]
        driver = LibvirtDriver(uri, destination=destination, grace_seconds=3, claim_seconds=2)
        over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        driver.carry_out(impact, lambda _, error: over.set_result(error))
        try:
            return await over
        finally:
            await driver.close()


@contextmanager
def running(vm: Guest) -> Iterator[Guest]:
    """A guest that listens to nobody, and counts."""
    vm.define("vm", NOBODY, "deaf ticks")
    vm.domain().create()
    vm.says("tick")
    yield vm


@pytest.mark.spec("E9")
def test_what_happens_to_a_guest() -> None:
    """Frozen, it stands still. Deaf to its power button, it loses its power, once."""
    with guest("vm") as made, running(made) as vm:
        carrier = Carrier(vm.uri)
        before = len(vm.says("tick"))
        assert carrier.carry_out("freeze", seconds=10) == ""
        during = len(vm.says("tick")) - before
        assert during < 6  # of ten seconds, and of those before and after
        vm.says("tick", before + during + 3)

        assert carrier.carry_out("reboot") == ""
        vm.says("booted", times=2)
        assert "asked to shut down" not in vm.console()
        assert carrier.carry_out("stop") == ""
        assert not vm.domain().isActive()
        assert carrier.carry_out("start") == ""
        vm.says("booted", times=3)
        assert carrier.carry_out("evict") == ""
        assert not vm.domain().isActive()
        assert carrier.carry_out("delete") == ""
        assert vm.names() == []


@needs_root
def test_a_guest_moves_to_another_host() -> None:
    """Redeployed, it goes on there as it was; and so it does when it is redeployed again."""
    settings = SETTINGS + 'migration_host = "127.0.0.2"\n'  # libvirt lets 127.0.0.1 be no other
    with (
        daemon(settings, host="here") as here,
        daemon(settings, host="there") as there,
        guest_of(there, "vm") as later,
        guest_of(here, "vm") as made,
        running(made) as vm,
    ):
        carrier = Carrier(vm.uri, later.uri)
        assert carrier.carry_out("redeploy") == ""
        assert (vm.names(), later.names()) == ([], ["vm"])
        assert later.domain().isPersistent()
        vm.says("tick", len(vm.says("tick")) + 3)
        assert carrier.carry_out("redeploy") == ""
        assert (vm.names(), later.names()) == (["vm"], [])
        vm.says("tick", len(vm.says("tick")) + 3)
        assert vm.console().count("booted") == 1
