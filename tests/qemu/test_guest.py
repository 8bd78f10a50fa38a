"""A real Linux in a real virtual machine is told that it will be rebooted, agrees, and is."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairwarning.machines.libvirt.record import ImpactStage
from tests.fixtures.service import ServiceProcess
from tests.qemu.guest import Guest, guest, library_folder, wait_for_guest

FLEET = """
[driver]
kind = "libvirt"
uri = "{uri}"
grace_seconds = 15

[[machine]]
name = "gateway"
"""
METADATA = ("127.0.0.1", 8169)  # free in a private network; a guest finds it again after a restart


@contextmanager
def service(vm: Guest, folder: Path, *words: str) -> Iterator[ServiceProcess]:
    """Started as anybody would."""
    metadata = "{}:{}".format(*METADATA)
    fleet = FLEET.format(uri=vm.uri)
    with ServiceProcess(folder / "data", *words, fleet=fleet, metadata=metadata) as started:
        yield started


def boot(vm: Guest, started: ServiceProcess, words: str = "") -> None:
    """The guest of the fleet's one machine, until it has asked for its events."""
    address = started.ready["machines"]["gateway"].removeprefix("http://").partition(":")[0]
    vm.define("gateway", (address, METADATA[1]), words)
    vm.domain().create()
    vm.says(r"booted, boot id \S+")
    vm.says(r'sees {"DocumentIncarnation":1,"Events":\[\]}')


@pytest.mark.spec("E2", "E9", "M1", "M12")
def test_a_guest_is_rebooted_when_it_agrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It polls, sees the notice, approves, is shut down and started again, and sees no event."""
    monkeypatch.setenv("PYTHONPATH", str(library_folder(tmp_path / "library")))
    with guest("gw-1") as vm, service(vm, tmp_path, "--memory") as cloud:
        boot(vm, cloud)
        cloud.json("machine", "restart", "gateway")
        (seen,) = vm.says(r'sees ({"DocumentIncarnation":2,"Events":\[{.*}\]})')
        (event,) = json.loads(seen)["Events"]
        assert (event["EventType"], event["EventSource"]) == ("Reboot", "User")
        assert event["Resources"] == ["gateway"]
        vm.says(f"approved {event['EventId']}")

        vm.says("asked to shut down, and does")
        first, second = vm.says(r"booted, boot id (\S+)", times=2)
        assert first != second
        wait_for_guest(lambda: cloud.poll("gateway")["Events"] == [], "the event is gone")
        vm.says(r'sees {"DocumentIncarnation":4,"Events":\[\]}')
        assert vm.console().count("asked to shut down") == 1
        assert vm.console().count("booted") == 2
        assert vm.record().done == (f"{event['EventId']}:gateway",)


@pytest.mark.spec("E9")
def test_a_service_that_is_killed_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest does not hear that it should shut down. Whoever comes next reboots it, once."""
    monkeypatch.setenv("PYTHONPATH", str(library_folder(tmp_path / "library")))
    with guest("gw-2") as vm:
        with service(vm, tmp_path) as cloud:
            boot(vm, cloud, "deaf")
            cloud.json("machine", "restart", "gateway")
            wait_for_guest(lambda: vm.record().step is ImpactStage.BEGUN, "the reboot has begun")
            cloud.process.kill()
        assert vm.console().count("booted") == 1
        with service(vm, tmp_path) as cloud:
            vm.says("booted", times=2)
            wait_for_guest(lambda: cloud.poll("gateway")["Events"] == [], "the event is gone")
            assert vm.console().count("booted") == 2
            assert vm.record().before is False
            assert len(vm.record().done) == 1
