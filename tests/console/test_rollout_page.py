"""The page of a rollout: its rate, its failures, and what it waits for."""

import pytest

from tests.console.test_page import Browser
from tests.fixtures.console import ConsoleHarness

pytestmark = pytest.mark.spec("O14", "E7")


def test_failures_come_before_what_the_rollout_waits_for_and_the_events(
    console: ConsoleHarness,
) -> None:
    """A failed machine is linked, with its error; the rate and the estimated end are shown."""
    console.created("machines", name="vm", count=4)
    console.poll("vm_2")
    console.driver.failing["vm_0"] = "no <power>"
    console.ok("POST", "/api/rollouts", {"id": "r", "kind": "reboot", "batch": 1})
    console.advance(120)
    text = Browser(console).text("/rollouts/r")
    failed = '<a href="/machines/vm_0/vm_0">vm_0</a> failed at 12:01:00: no &lt;power&gt;'
    waits = "Reboot of vm_2 in scope vm_2, until 12:17:00Z at the latest"
    places = [text.index(part) for part in (failed, f"<li>{waits}", 'id="events-title"')]
    assert places == sorted(places)
    assert "60 machines an hour" in text
    assert "12:04:00, at this rate" in text
