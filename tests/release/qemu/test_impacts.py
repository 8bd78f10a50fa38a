"""The effect of impacts on a real guest, with the driver alone."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fairwarning.core.model import Impact, ImpactKind
from fairwarning.machines.libvirt.driver import LibvirtDriver
from tests.fixtures.requirements import needs_root
from tests.machines.libvirt_daemon import daemon
from tests.machines.libvirt_harness import libvirt
from tests.release.qemu.guest import SETTINGS, Guest, guest, guest_of

NO_SERVICE = ("127.0.0.1", 9)  # the guest gets no answer and keeps running


class DriverRunner:
    """Runs a driver for one impact at a time."""

    def __init__(self, *uris: str, timeout_seconds: float = 600) -> None:
        self._uris = uris
        self._timeout_seconds = timeout_seconds
        self._count = 0

    def carry_out(self, kind: str, seconds: int = -1) -> str:
        """Execute an impact and return its error."""
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
        driver = LibvirtDriver(
            uri,
            destination=destination,
            grace_seconds=3,
            timeout_seconds=self._timeout_seconds,
            claim_seconds=2,
        )
        result: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        driver.carry_out(impact, lambda _, error: result.set_result(error))
        try:
            return await result
        finally:
            await driver.close()


@contextmanager
def running(vm: Guest) -> Iterator[Guest]:
    """Start a guest that ignores shutdown requests and counts."""
    vm.define("vm", NO_SERVICE, "no_agent ticks")
    vm.domain().create()
    vm.wait_for_output("tick")
    yield vm


@pytest.mark.spec("E9")
def test_the_effect_of_impacts() -> None:
    """A frozen guest is paused. One that ignores shutdown requests is powered off, once."""
    with guest("vm") as defined, running(defined) as vm:
        runner = DriverRunner(vm.uri)
        before = len(vm.wait_for_output("tick"))
        assert runner.carry_out("freeze", seconds=10) == ""
        during = len(vm.wait_for_output("tick")) - before
        assert during < 6  # in ten seconds, including those before and after the freeze
        vm.wait_for_output("tick", before + during + 3)

        assert runner.carry_out("reboot") == ""
        vm.wait_for_output("booted", times=2)
        assert "shutting down on request" not in vm.console()
        assert runner.carry_out("stop") == ""
        assert not vm.domain().isActive()
        assert runner.carry_out("start") == ""
        vm.wait_for_output("booted", times=3)
        assert runner.carry_out("evict") == ""
        assert not vm.domain().isActive()
        assert runner.carry_out("delete") == ""
        assert vm.names() == []


@contextmanager
def running_here() -> Iterator[tuple[Guest, Guest]]:
    """Start a guest on one of two hosts; provide it and its counterpart on the other host."""
    settings = SETTINGS + 'migration_host = "127.0.0.2"\n'  # libvirt takes 127.0.0.1 for itself
    with (
        daemon(settings, host="here") as here,
        daemon(settings, host="there") as there,
        guest_of(there, "vm") as moved,
        guest_of(here, "vm") as defined,
        running(defined) as vm,
    ):
        yield vm, moved


@needs_root
def test_a_guest_moves_to_another_host() -> None:
    """A redeployed guest keeps running on the other host, and moves back when redeployed again."""
    with running_here() as (vm, moved):
        runner = DriverRunner(vm.uri, moved.uri)
        assert runner.carry_out("redeploy") == ""
        assert (vm.names(), moved.names()) == ([], ["vm"])
        assert moved.domain().isPersistent()
        vm.wait_for_output("tick", len(vm.wait_for_output("tick")) + 3)
        assert runner.carry_out("redeploy") == ""
        assert (vm.names(), moved.names()) == (["vm"], [])
        vm.wait_for_output("tick", len(vm.wait_for_output("tick")) + 3)
        assert vm.console().count("booted") == 1


@needs_root
def test_a_migration_that_takes_too_long_is_aborted() -> None:
    """It is reported as failed, and the guest stays where it is and keeps running."""
    with running_here() as (vm, moved):
        vm.domain().migrateSetMaxSpeed(1)  # MiB/s
        error = DriverRunner(vm.uri, moved.uri, timeout_seconds=3).carry_out("redeploy")
        assert error.startswith(f"the migration of domain vm to {moved.uri} took too long and was")
        assert (vm.names(), moved.names(), vm.domain().isActive()) == (["vm"], [], 1)
        assert vm.domain().jobInfo()[0] == libvirt.VIR_DOMAIN_JOB_NONE
        assert vm.record().owner == ""
        vm.wait_for_output("tick", len(vm.wait_for_output("tick")) + 3)
        vm.domain().migrateSetMaxSpeed(1000)
        assert DriverRunner(vm.uri, moved.uri).carry_out("redeploy") == ""
        assert (vm.names(), moved.names()) == ([], ["vm"])
        assert vm.console().count("booted") == 1
