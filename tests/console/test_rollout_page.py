"""The page of a rollout: its lanes, its rate, its failures, and what it waits for."""

import re
from html import unescape

import pytest

from fairwarning.console.page.charts.lanes import lanes_shown
from fairwarning.core.model import ImpactKind, Rollout
from tests.console.test_page import Browser
from tests.fixtures.console import ConsoleHarness

pytestmark = pytest.mark.spec("O14", "E7")

TITLES = ('id="lanes-title"', 'id="events-title"')
CELL = re.compile(r'class="cell (\w+)"(?: href="([^"]*)")?.*?"name">(.*?)<.*?</i>(.*?)<')


def cells(text: str) -> list[tuple[str, ...]]:
    """The class, link, label and state of each cell of the grid."""
    return [tuple(unescape(part) for part in match) for match in CELL.findall(text)]


def test_the_grid_fills_up(console: ConsoleHarness) -> None:
    """Each lane is a cell with its state as text; it links to the machines of its scope."""
    console.created("sets", name="web", capacity=2)
    console.created("machines", name="vm", count=3)
    console.poll("web_0")
    console.ok("POST", "/api/rollouts", {"id": "r", "kind": "reboot", "batch": 2})
    console.advance(60)
    shown = cells(Browser(console).text("/rollouts/r"))
    assert shown == [
        ("done", "", "Lane 0", "done"),
        ("done", "", "Lane 1", "done"),
        ("impacted", "/machines?scope=vm_2", "vm_2", "step 1 of 1"),
        ("impacted", "/machines?scope=web%2F0", "web/0", "step 1 of 2"),
    ]
    console.advance(3600)
    assert [cell[0] for cell in cells(Browser(console).text("/rollouts/r"))] == ["done"] * 4


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
    places = [text.index(part) for part in (failed, f"<li>{waits}", *TITLES)]
    assert places == sorted(places)
    assert "60 machines an hour" in text
    assert "12:04:00, at this rate" in text


def test_a_large_rollout_has_a_bounded_grid(console: ConsoleHarness) -> None:
    """Lanes in progress are always shown; the others are counted."""
    console.created("machines", name="vm", count=260)
    console.ok("POST", "/api/rollouts", {"id": "r", "kind": "reboot", "batch": 10})
    text = Browser(console).text("/rollouts/r")
    assert len(cells(text)) == 200
    assert "and 60 more not started" in text
    console.advance(60 * 20)
    text = Browser(console).text("/rollouts/r")
    states = [cell[3] for cell in cells(text)]
    assert len(states) == 200
    assert states.count("step 1 of 1") == 10
    assert "60 more done" in text


@pytest.mark.parametrize("next_lane", [0, 5, 100, 500, 995, 1000])
def test_the_lanes_shown_are_those_around_the_ones_in_progress(next_lane: int) -> None:
    """However far a rollout is, its grid has 200 cells, and one that hangs is among them."""
    running = tuple({0, *range(max(next_lane - 5, 0), next_lane)}) if next_lane else ()
    rollout = Rollout(
        id="r", kind=ImpactKind.REBOOT, actor="", started_at=0.0, batch=10, lanes=1000,
        machines=1000, next_lane=next_lane, running=running,
    )  # fmt: skip
    shown = lanes_shown(rollout)
    assert len(shown) == len(set(shown)) == 200
    assert shown == sorted(shown)
    assert set(running) <= set(shown)
    assert set(shown) <= set(range(1000))
