"""The web page, in a real browser, also while its service is gone."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.campaigns import split
from tests.fixtures.requirements import CHROMIUM, needs_chromium
from tests.fixtures.service import ServiceProcess
from tests.real.browser import (
    FLEET,
    PHONE,
    WIDE,
    BrowserHarness,
    Scheme,
    browser_harness,
    open_clock,
    overflow,
    press,
    violations,
)

pytestmark = needs_chromium

FIRST_PATHS = ("/map", "/new/set")
PATHS = (
    "/",
    "/map",
    "/machines",
    "/machines?not_polled=true",
    "/map?view=table",
    "/timeline",
    "/timeline?set=web",
    "/events",
    "/events?group=type",
    "/events?status=Over",
    "/events/confirm?action=cancel",
    "/machines/web_1",
    "/new/machine",
    "/sets",
    "/sets/web",
    "/new/set",
    "/rollouts",
    "/new/rollout",
    "/rollouts/patches",
    "/confirm/rollouts/patches/abort",
    "/journal",
    "/operations",
    "/webhooks",
    "/faults",
    "/help",
    "/search?q=web_",
    "/login",
    "/machines/nobody",
)


@pytest.mark.spec("O8", "T8")
def test_a_scale_in_with_notice(tmp_path: Path) -> None:
    """With termination notice, Terminate appears, is approved and is carried out."""
    with browser_harness(tmp_path / "data") as harness:
        page = harness.tab("/new/set")
        page.get_by_label("Name").fill("shop")
        page.get_by_label("Instances", exact=True).fill("2")
        page.get_by_label("On: instances").check()
        page.get_by_label("Termination delay").fill("7")
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", name="shop", exact=True)).to_be_visible()
        expect(page.locator("#notice")).to_contain_text("with termination notice")
        expect(page.locator("#facts")).to_contain_text("7 min")
        harness.poll("shop_0")

        fleet = harness.open(page.context)  # only watches
        page.get_by_label("Scale to").fill("1")
        press(page, "Scale")
        expect(page.locator("#notice")).to_contain_text("Terminate scheduled for shop_1")
        row = fleet.locator("#timeline .row", has_text="shop_1")
        expect(row).to_contain_text("in 7:00")
        assert harness.poll("shop_0") == ["Terminate"]

        page.goto(f"/events/{harness.event_of('shop_1')}")
        press(page, "Approve")
        expect(page.get_by_role("button", name="Approve")).to_have_count(0)
        open_clock(page)
        page.get_by_role("button", name="+1 min").click()
        expect(page.locator("#state")).to_contain_text("Ended")
        expect(row).to_contain_text("ended")
        expect(fleet.locator("#machines")).to_contain_text("shop_0")
        expect(fleet.locator("#machines")).not_to_contain_text("shop_1")
        assert harness.poll("shop_0") == []


@pytest.mark.campaign
@pytest.mark.spec("O5")
def test_the_clock_runs_and_is_paused(tmp_path: Path) -> None:
    """At a multiple of real time the clock and every countdown go on by themselves."""
    with browser_harness(tmp_path / "data") as harness:
        harness.poll("web_0")
        page = harness.tab("/machines/web_0")
        press(page, "Restart")
        open_clock(page)
        faster = page.get_by_role("button", name="Run at \N{MULTIPLICATION SIGN}60")
        faster.click()
        expect(page.locator("#clock")).to_contain_text("running at")
        expect(faster).to_have_attribute("aria-pressed", "true")
        expect(page.locator("#state")).not_to_contain_text("Reboot in 15:00")
        page.get_by_role("button", name="Pause clock").click()
        expect(page.locator("#clock")).to_contain_text("paused")


@pytest.mark.spec("O8")
def test_two_tabs_stay_in_sync(tmp_path: Path) -> None:
    """Each tab shows the other's changes, and keeps its focus, input and open table."""
    with browser_harness(tmp_path / "data") as harness:
        harness.poll("web_0")
        first, second = harness.tab("/"), harness.tab("/")
        page = harness.tab("/machines/web_1")
        press(page, "Restart")
        for tab in (first, second):
            expect(tab.locator("#timeline .row", has_text="web_1")).to_contain_text("in 15:00")
        second.get_by_text("Show as table").click()
        second.get_by_label("Filter by name").fill("half a wo")
        page.goto(f"/events/{harness.event_of('web_1')}")
        press(page, "Cancel")
        for tab in (first, second):
            expect(tab.locator("#timeline .row", has_text="web_1")).to_contain_text("cancelled")
        expect(second.get_by_role("table")).to_contain_text("cancelled")  # still open
        expect(second.get_by_label("Filter by name")).to_have_value("half a wo")
        expect(second.get_by_label("Filter by name")).to_be_focused()


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the element with this label has the focus."""
    label = "document.activeElement.labels?.[0]?.innerText || document.activeElement.innerText"
    for _ in range(60):
        page.keyboard.press("Tab")
        if str(page.evaluate(label)).strip().startswith(name):
            assert page.evaluate("document.activeElement.matches(':focus-visible')")
            return
    raise AssertionError(f"{name!r} cannot be reached by Tab")


@pytest.mark.spec("O8")
def test_a_set_is_created_by_keyboard(tmp_path: Path) -> None:
    """Tab, Enter, Space, arrows and letters are enough to create a set."""
    with browser_harness(tmp_path / "data") as harness:
        page = harness.tab("/")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # the first link skips to the content
        assert page.evaluate("document.activeElement.id") == "main"
        tab_to(page, "New scale set")
        page.keyboard.press("Enter")
        page.wait_for_url("**/new/set")
        tab_to(page, "Name")
        page.keyboard.type("shop")
        tab_to(page, "Instances")
        page.keyboard.press("Control+A")
        page.keyboard.type("1")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Shift+Tab")
        tab_to(page, "Off:")
        page.keyboard.press("ArrowUp")
        expect(page.get_by_label("On: instances")).to_be_checked()
        tab_to(page, "Create")
        page.keyboard.press("Space")
        expect(page.get_by_role("heading", name="shop", exact=True)).to_be_visible()
        expect(page.locator("#facts")).to_contain_text("5 min")


@pytest.mark.spec("O8")
@pytest.mark.parametrize(
    ("scheme", "paths"), split([("light", FIRST_PATHS), ("light", PATHS), ("dark", PATHS)], 1)
)
def test_accessibility_and_narrow_screens(
    tmp_path: Path, scheme: Scheme, paths: tuple[str, ...]
) -> None:
    """No page has serious axe violations, and none scrolls sideways on a phone."""
    with browser_harness(tmp_path / "data") as harness:
        events = []
        if paths == PATHS:
            harness.start_events()
            events = [f"/events/{harness.event_of('web_2')}"]
        wide, narrow = harness.context(scheme=scheme), harness.context(PHONE, scheme)
        for path in (*paths, *events):
            page = harness.open(wide, path)
            assert (path, violations(page)) == (path, [])
            page.close()
            page = harness.open(narrow, path)
            assert (path, overflow(page)) == (path, 0)
            page.close()
        assert violations(harness.open(narrow, "/")) == []


@pytest.mark.campaign
@pytest.mark.spec("O8")
def test_without_script(tmp_path: Path) -> None:
    """Pages are complete, forms redirect with a notice, and a refused form keeps its input."""
    with browser_harness(tmp_path / "data") as harness:
        harness.start_events()
        page = harness.open(harness.context(script=False), "/")
        expect(page.locator("#timeline .row")).to_have_count(5)  # with the axis
        expect(page.locator("#machines")).to_contain_text("web_2")

        page.goto("/new/set")
        page.get_by_label("Name").fill("shop")
        page.get_by_label("On: instances").check()
        page.get_by_label("Termination delay").fill("20")
        page.get_by_role("button", name="Create").click()
        expect(page.locator("main [data-error]")).to_contain_text("'PT5M' to 'PT15M'")
        expect(page.get_by_label("Name")).to_have_value("shop")
        expect(page.get_by_label("On: instances")).to_be_checked()
        page.get_by_label("Termination delay").fill("15")
        page.get_by_role("button", name="Create").click()
        expect(page.locator("#notice")).to_contain_text("shop created")
        page.reload()
        expect(page.locator("#notice")).to_have_text("")  # the notice appears once

        page.goto(f"/events/{harness.event_of('web_2')}")
        page.get_by_role("button", name="Approve").click()
        expect(page.locator("#notice")).to_contain_text("Event approved")
        open_clock(page)
        page.get_by_role("button", name="+15 min").click()
        expect(page.locator("#state")).to_contain_text("Ended")


FAST = "Run at \N{MULTIPLICATION SIGN}60"


@pytest.mark.spec("O8")
@pytest.mark.parametrize("size", [WIDE, pytest.param(PHONE, marks=pytest.mark.campaign)])
def test_a_lost_connection_is_shown_until_it_is_back(tmp_path: Path, size: tuple[int, int]) -> None:
    """A banner has the time of the data; time stands still and no button can be pressed."""
    service = ServiceProcess(tmp_path / "data", "--clock", "virtual", fleet=FLEET)
    with service, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        harness = BrowserHarness(service, browser)
        harness.poll("web_0")
        page = harness.open(harness.context(size), "/machines/web_1")
        press(page, "Restart")
        page.goto("/")
        lost, time = page.locator("#lost"), page.locator("#clock [data-clock]")
        open_clock(page)
        press(page, FAST)
        expect(lost).to_be_hidden()
        address = service.ready["console"].removeprefix("http://")
        service.kill()

        expect(lost).to_be_visible()
        shown = time.inner_text()
        expect(lost).to_contain_text(f"Connection lost. This page shows the fleet as of {shown}")
        expect(page.get_by_text("accepts commands")).to_be_hidden()
        expect(page.get_by_text("does not answer")).to_be_visible()
        assert page.locator("button:enabled:not([type=button])").count() == 0
        left = page.locator("[data-until]").first.inner_text()
        page.evaluate("() => new Promise((resume) => setTimeout(resume, 600))")  # two ticks of 15 s
        assert (time.inner_text(), page.locator("[data-until]").first.inner_text()) == (shown, left)
        assert overflow(page) == 0

        with ServiceProcess(service.data, "--clock", "virtual", console=address):
            expect(lost).to_be_hidden()
            expect(page.get_by_role("button", name=FAST)).to_be_enabled()
            expect(page.get_by_text("accepts commands")).to_be_visible()
        browser.close()
