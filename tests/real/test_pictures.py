"""The map and the timeline, in a real browser."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.fixtures.requirements import needs_chromium
from tests.real.browser import LOOKS, Scheme, browser_harness, overflow, violations

pytestmark = [needs_chromium, pytest.mark.spec("O8", "O14")]

FLEET = """
[[scale_set]]
name = "web"
capacity = 30

[[scale_set]]
name = "api"
capacity = 30

[[availability_set]]
name = "db"
machines = 2
"""
PATHS = ("/map", "/map?view=table", "/timeline", "/timeline?set=web")


def square(page: Page, group: str, column: int, row: int) -> dict[str, float]:
    """The middle of a square, in the drawing of a group."""
    drawing = page.locator(f'[data-key="0 {group}"] svg')
    drawing.scroll_into_view_if_needed()
    unit = float(drawing.evaluate("e => e.getBoundingClientRect().width")) / 10
    return {"x": (column + 0.4) * unit, "y": (1.4 * row + 0.4) * unit}


def test_the_map_names_and_opens_machines(tmp_path: Path) -> None:
    """By pointer and by keyboard, and its squares follow the fleet by themselves."""
    with browser_harness(tmp_path / "data", FLEET) as harness:
        page = harness.tab("/map")
        web = page.locator('[data-key="0 set web"]')
        expect(web.locator("path.no-polls")).to_have_count(1)
        harness.poll("web_0")
        expect(web.locator("path.running")).to_have_count(1)  # by itself: the page follows
        harness.service.ok("POST", "/api/machines/web_7/restart", {})
        expect(web.locator("path.notice")).to_have_count(1)
        place = square(page, "set web", 1, 2)
        web.locator("svg").hover(position={"x": place["x"], "y": place["y"]})
        expect(page.locator("#map-machine")).to_contain_text("web_7 notice")
        expect(page.locator("#map-machine")).to_contain_text("update domain 2")
        web.locator("svg").click(position={"x": place["x"], "y": place["y"]})
        expect(page.get_by_role("heading", name="web_7")).to_be_visible()

        page.goto("/map")
        page.locator('[data-key="0 scope db"] a').focus()
        page.keyboard.press("ArrowRight")
        expect(page.locator("#map-machine")).to_contain_text("db_0")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#map-machine")).to_contain_text("db_1")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="db_1")).to_be_visible()


@pytest.mark.campaign
def test_the_timeline_zooms(tmp_path: Path) -> None:
    """By dragging across the chart; the address is that of the new range."""
    with browser_harness(tmp_path / "data", FLEET) as harness:
        for name in ("web", "api"):
            harness.poll(f"{name}_0")
            for number in range(15):
                harness.service.ok("POST", f"/api/machines/{name}_{number}/restart", {})
        page = harness.tab("/timeline")
        expect(page.locator("#timeline .row .label b")).to_have_text(["api", "web"])
        box = page.locator("[data-brush]").bounding_box()
        assert box
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 40, steps=5)
        page.mouse.up()
        page.wait_for_url("**/timeline?from=*&to=*")
        expect(page.locator("#density")).to_contain_text("30 to come")
        page.locator("#timeline .label", has_text="web").click()
        expect(page.locator("#timeline .row .label")).to_have_count(16)  # with the axis


@pytest.mark.campaign
def test_the_pictures_without_script(tmp_path: Path) -> None:
    """The map leads to lists of machines, a bar to its time."""
    with browser_harness(tmp_path / "data", FLEET) as harness:
        harness.poll("web_0")
        harness.service.ok("POST", "/api/machines/web_7/restart", {})
        page = harness.open(harness.context(script=False), "/map")
        page.locator('[data-key="0 set web"] a').click()
        expect(page.locator("#machines-list")).to_contain_text("of 30 machines")
        page.goto("/timeline")
        page.locator("#density a rect").click()
        expect(page.locator("#density")).to_contain_text("1 to come")
        page.get_by_role("link", name="Zoom out").click()
        expect(page.get_by_role("heading", name="Timeline")).to_be_visible()


@pytest.mark.campaign
@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_the_pictures_fit_every_screen(
    tmp_path: Path, size: tuple[int, int], scheme: Scheme
) -> None:
    """Neither scrolls sideways, nor has an accessibility problem, in light and dark."""
    with browser_harness(tmp_path / "data", FLEET) as harness:
        harness.poll("web_0")
        for number in range(25):
            harness.service.ok("POST", f"/api/machines/web_{number}/restart", {})
        harness.service.ok("POST", "/api/machines/db_0/stop", {})
        context = harness.context(size, scheme)
        for path in PATHS:
            page = harness.open(context, path)
            assert (path, overflow(page), violations(page)) == (path, 0, [])
            page.close()
