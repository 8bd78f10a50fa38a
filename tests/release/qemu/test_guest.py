"""A real Linux in a virtual machine gets notice of a reboot, approves it, and is rebooted."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairwarning.machines.libvirt.record import ImpactStage
from tests.fixtures.service import ServiceProcess
from tests.release.qemu.guest import Guest, guest, library_folder, wait_for_guest

FLEET = """
[driver]
kind = "libvirt"
uri = "{uri}"
grace_seconds = {grace}

[[machine]]
name = "gateway"
"""
METADATA = ("127.0.0.1", 8169)  # free in a private network; a guest finds it again after a restart


@contextmanager
def service(vm: Guest, folder: Path, *options: str, grace: int = 15) -> Iterator[ServiceProcess]:
    """Run a service as a user would; `grace` is the time that a guest has to shut down."""
    metadata = "{}:{}".format(*METADATA)
    fleet = FLEET.format(uri=vm.uri, grace=grace)
    with ServiceProcess(folder / "data", *options, fleet=fleet, metadata=metadata) as process:
        yield process


def boot(vm: Guest, process: ServiceProcess, options: str = "") -> None:
    """Boot the guest of the fleet's only machine and wait until it has polled its events."""
    address = process.ready["machines"]["gateway"].removeprefix("http://").partition(":")[0]
    vm.define("gateway", (address, METADATA[1]), options)
    vm.domain().create()
    vm.wait_for_output(r"booted, boot id \S+")
    vm.wait_for_output(r'sees {"DocumentIncarnation":1,"Events":\[\]}')


@pytest.mark.spec("E2", "E9", "M1", "M12")
def test_a_guest_is_rebooted_when_it_approves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It polls, sees the notice, approves, is shut down and started again, and sees no event."""
    monkeypatch.setenv("PYTHONPATH", str(library_folder(tmp_path / "library")))
    with guest("gw-1") as vm, service(vm, tmp_path, "--memory", grace=280) as cloud:
        boot(vm, cloud)
        cloud.json("machine", "restart", "gateway")
        (seen,) = vm.wait_for_output(r'sees ({"DocumentIncarnation":2,"Events":\[{.*}\]})')
        (event,) = json.loads(seen)["Events"]
        assert (event["EventType"], event["EventSource"]) == ("Reboot", "User")
        assert event["Resources"] == ["gateway"]
        vm.wait_for_output(f"approved {event['EventId']}")

        vm.wait_for_output("shutting down on request")
        first, second = vm.wait_for_output(r"booted, boot id (\S+)", times=2)
        assert first != second
        wait_for_guest(lambda: cloud.poll("gateway")["Events"] == [], "the event is gone")
        vm.wait_for_output(r'sees {"DocumentIncarnation":4,"Events":\[\]}')
        assert vm.console().count("shutting down on request") == 1
        assert vm.console().count("booted") == 2
        assert vm.record().done == (f"{event['EventId']}:gateway",)


@pytest.mark.spec("E9")
def test_a_service_is_killed_during_a_reboot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest ignores the shutdown request. The next service reboots it, once."""
    monkeypatch.setenv("PYTHONPATH", str(library_folder(tmp_path / "library")))
    with guest("gw-2") as vm:
        with service(vm, tmp_path) as cloud:
            boot(vm, cloud, "no_agent")
            cloud.json("machine", "restart", "gateway")
            wait_for_guest(lambda: vm.record().stage is ImpactStage.BEGUN, "the reboot has begun")
            cloud.process.kill()
        assert vm.console().count("booted") == 1
        with service(vm, tmp_path) as cloud:
            vm.wait_for_output("booted", times=2)
            wait_for_guest(lambda: cloud.poll("gateway")["Events"] == [], "the event is gone")
            assert vm.console().count("booted") == 2
            assert vm.record().not_restarted is False
            assert len(vm.record().done) == 1
