"""An operator of ten thousand machines finds what matters, in a real browser."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.fixtures.requirements import needs_chromium
from tests.real.browser import (
    PHONE,
    WIDE,
    BrowserHarness,
    Scheme,
    browser_harness,
    overflow,
    violations,
)

pytestmark = [needs_chromium, pytest.mark.campaign, pytest.mark.spec("O8", "O14")]

SETS, SIZE = 200, 50
POLLED = 100  # scale sets
PATHS = (
    "/",
    "/events",
    "/events?group=set",
    "/machines",
    "/machines?not_polled=true",
    "/machines?size=100",
    "/sets",
    "/rollouts",
    "/operations",
    "/journal",
)
SCREENS = 3
MOST_NODES = 3000
PAGE_BYTES = 120 * 1024


def fleet() -> str:
    """200 scale sets of 50 machines."""
    return "".join(
        f'[[scale_set]]\nname = "set{number:03}"\ncapacity = {SIZE}\n' for number in range(SETS)
    )


def announce(harness: BrowserHarness) -> list[Any]:
    """Create 500 events, and return them."""
    service = harness.service
    for number in range(POLLED):
        name = f"set{number:03}"
        service.poll(f"{name}_0")
        service.ok("POST", f"/api/sets/{name}/restart", {"instances": [0, 1, 2, 3, 4]})
    events: list[Any] = service.ok("GET", "/api/events?limit=1000")["events"]
    assert len(events) == 5 * POLLED
    return events


def fill(harness: BrowserHarness) -> None:
    """500 events, of which all but one are approved."""
    for event in announce(harness):
        if event["resources"] != ["set042_3"]:
            harness.service.ok("POST", f"/api/events/{event['id']}/approve", {})


def test_the_way_to_what_matters(tmp_path: Path) -> None:
    """Three clicks to the machine whose event nobody approved; one to all that nobody polls."""
    with browser_harness(tmp_path / "data", fleet()) as harness:
        fill(harness)
        page = harness.tab("/")
        page.get_by_role("link", name="1 approved by nobody").click()
        page.locator("#events-list").get_by_role("link", name="Reboot").click()
        page.locator("#facts").get_by_role("link", name="set042_3").click()
        expect(page.get_by_role("heading", name="set042_3")).to_be_visible()

        page.goto("/")
        page.get_by_role("link", name="that nobody polls").click()
        expect(page.locator("#machines-list")).to_contain_text("of 5,000 machines")
        _find_event(harness, page)
        _check_pages(harness)
        assert harness.problems == []


def _find_event(harness: BrowserHarness, page: Page) -> None:
    """One search leads from the start page to the event that a mail names."""
    (event,) = harness.service.ok("GET", "/api/events?machine=set042_3")["events"]
    page.goto("/")
    page.get_by_role("searchbox", name="Find", exact=True).fill(event["id"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Reboot of set042_3")).to_be_visible()


def _check_pages(harness: BrowserHarness) -> None:
    """No page is tall, wide or heavy, and none has an accessibility problem."""
    schemes: tuple[tuple[tuple[int, int], Scheme], ...] = ((WIDE, "light"), (PHONE, "dark"))
    for size, scheme in schemes:
        context = harness.context(size, scheme)
        for path in PATHS:
            page = harness.open(context, path)
            height = page.evaluate("document.documentElement.scrollHeight")
            assert height <= SCREENS * size[1] or "size" in path, (path, size, height)
            assert len(page.content()) <= PAGE_BYTES, path
            nodes = page.evaluate("document.querySelectorAll('*').length")
            assert nodes < MOST_NODES, (path, nodes)
            assert (path, overflow(page)) == (path, 0)
            assert (path, violations(page)) == (path, [])
            page.close()
        context.close()
