"""Real guests of a host: each is known by the address that its requests come from (M22)."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.fixtures.endpoint import POLL_TARGET, approval
from tests.fixtures.private_network import run_inside
from tests.fixtures.requirements import needs_ip, needs_root
from tests.fixtures.service import ServiceProcess
from tests.machines.guests import HOST, Guest, ip

FLEET = """
[[scale_set]]
name = "web"
capacity = 2
terminate_notice = "PT5M"
subnet = "10.0.0.0/24"
"""
ADDRESS = "/metadata/instance/network/interface/0/ipv4?api-version=2021-02-01"
NOBODY = "10.0.0.77"
WORDS = ("--memory", "--clock", "virtual")

Scenario = Callable[[ServiceProcess, int, Guest, Guest], None]


def with_two_guests(folder: Path, scenario: Scenario) -> None:
    """Run a scenario with a service on the host and two guests; the second has an address more."""

    def work() -> None:
        ip(f"address add {HOST}/32 dev lo")
        with (
            Guest(1, "10.0.0.4") as first,
            Guest(2, "10.0.0.5", NOBODY) as second,
            ServiceProcess(folder, *WORDS, fleet=FLEET, metadata=f"{HOST}:0") as service,
        ):
            port = urlsplit(service.ready["metadata"]).port
            assert port is not None
            scenario(service, port, first, second)

    run_inside(work)


@needs_root
@needs_ip
@pytest.mark.spec("M22", "T1", "T6")
def test_a_terminate_notice_over_tcp(tmp_path: Path) -> None:
    """Both instances are told, one approves, and the request of a stranger changes nothing."""

    def scenario(service: ServiceProcess, port: int, first: Guest, second: Guest) -> None:
        for guest in (first, second):
            assert guest.request(port, POLL_TARGET)[1]["Events"] == []
        service.ok("POST", "/api/machines/web_0/delete")
        (event,) = first.request(port, POLL_TARGET)[1]["Events"]
        assert (event["EventType"], event["Resources"]) == ("Terminate", ["web_0"])
        assert second.request(port, POLL_TARGET)[1]["Events"] == [event]

        status, answer = second.request(
            port, POLL_TARGET, approval(event["EventId"]), source=NOBODY
        )
        assert status == 404, answer
        assert first.request(port, POLL_TARGET)[1]["Events"] == [event]

        assert first.request(port, POLL_TARGET, approval(event["EventId"]))[0] == 200
        service.advance(60)
        assert first.request(port, POLL_TARGET)[0] == 404
        assert second.request(port, POLL_TARGET)[1]["Events"] == []

    with_two_guests(tmp_path / "data", scenario)


@needs_root
@needs_ip
@pytest.mark.spec("M19", "M22")
def test_a_machine_has_the_address_that_identifies_it(tmp_path: Path) -> None:
    """The instance metadata shows it, with the subnet; a new address replaces the old at once."""

    def scenario(service: ServiceProcess, port: int, first: Guest, second: Guest) -> None:
        shown = first.request(port, ADDRESS)[1]
        assert shown["ipAddress"][0]["privateIpAddress"] == "10.0.0.4"
        assert shown["subnet"] == [{"address": "10.0.0.0", "prefix": "24"}]
        assert second.request(port, POLL_TARGET)[0] == 200
        changed = service.run("machine", "set-address", "web_1", NOBODY)
        assert changed.stdout == f"web_1: address {NOBODY}\n"
        assert second.request(port, POLL_TARGET)[0] == 404
        assert second.request(port, POLL_TARGET, source=NOBODY)[0] == 200

    with_two_guests(tmp_path / "data", scenario)
