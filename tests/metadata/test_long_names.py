"""Machines with the longest names that are allowed are machines like any other (T7)."""

from pathlib import Path

import pytest

from fairwarning.core import limits
from tests.fixtures.service import ServiceProcess

LONGEST = "n" * limits.NAME_CHARACTERS
MACHINE = f'[[machine]]\nname = "{LONGEST}"\n'
SET = f'[[scale_set]]\nname = "{LONGEST}"\ncapacity = 2\nterminate_notice = "PT5M"\n'
CLOUD_SERVICE = f'[[cloud_service]]\nname = "{LONGEST}"\nroles = {{ "{LONGEST[:-5]}" = 1 }}\n'


@pytest.mark.spec("M12", "T7")
@pytest.mark.parametrize(
    ("fleet", "machine"),
    [(MACHINE, LONGEST), (SET, f"{LONGEST}_1"), (CLOUD_SERVICE, f"{LONGEST[:-5]}_IN_0")],
    ids=["machine", "instance", "role"],
)
def test_the_longest_name_can_approve(tmp_path: Path, fleet: str, machine: str) -> None:
    """It polls, approves, and its operation succeeds."""
    words = ("--clock", "virtual", "--memory")
    with ServiceProcess(tmp_path / "data", *words, fleet=fleet) as service:
        service.poll(machine)
        accepted = service.ok("POST", f"/api/machines/{machine}/restart")
        (event,) = service.poll(machine)["Events"]
        assert event["Resources"] == [machine]
        service.approve(machine, event["EventId"])
        (started,) = service.poll(machine)["Events"]
        assert started["EventStatus"] == "Started"
        service.advance(3600)
        operation = service.ok("GET", f"/api/operations/{accepted['operation']['id']}")
        assert operation["status"] == "Succeeded"
        explained = service.run("event", "explain", event["EventId"]).stdout
        assert machine in explained.replace("\n", "").replace(" ", "")
