"""The web page, in a real browser."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.campaigns import split
from tests.fixtures.requirements import needs_chromium
from tests.real.browser import (
    PHONE,
    Scheme,
    browser_harness,
    event_of,
    open_clock,
    overflow,
    press,
    violations,
)

pytestmark = needs_chromium

FIRST_PATHS = ("/map", "/new/set")
PATHS = (
    "/",
    "/machines",
    "/machines?not_polled=true",
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

        page.goto(event_of(page, "shop_1"))
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
@pytest.mark.spec("O8", "O5")
def test_a_restart_shows_its_effect_first(tmp_path: Path) -> None:
    """Without pollers it happens at once; with pollers it waits for the clock."""
    with browser_harness(tmp_path / "data") as harness:
        page = harness.tab("/machines/web_0")
        action = page.locator(".action", has=page.get_by_role("button", name="Restart"))
        expect(action).to_contain_text("Reboots web_0 immediately: no machine in its scope polls.")
        harness.poll("web_0")
        expect(action).to_contain_text(
            "Reboot event with 15 min notice"
        )  # by itself: the page follows
        press(page, "Restart")
        expect(page.locator("#state")).to_contain_text("Reboot in 15:00")
        expect(action).to_have_count(0)
        expect(page.locator("#actions .list")).to_contain_text("Restart")
        open_clock(page)
        page.get_by_role("button", name="+5 min").click()
        expect(page.locator("#state")).to_contain_text("Reboot in 10:00")
        page.get_by_label("Minutes to advance").fill("11.5")
        page.get_by_role("button", name="Advance", exact=True).click()
        expect(page.locator("#state")).not_to_contain_text("Reboot")
        expect(page.locator("#activity")).to_contain_text("because NotBefore passed")
        assert harness.poll("web_0") == []


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
        page.goto(event_of(page, "web_1"))
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
        events = [event_of(harness.start_events(), "web_2")] if paths == PATHS else []
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
        harness.start_events().context.close()
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

        page.goto(event_of(page, "web_2"))
        page.get_by_role("button", name="Approve").click()
        expect(page.locator("#notice")).to_contain_text("Event approved")
        open_clock(page)
        page.get_by_role("button", name="+15 min").click()
        expect(page.locator("#state")).to_contain_text("Ended")


@pytest.mark.campaign
@pytest.mark.spec("O8")
def test_faults(tmp_path: Path) -> None:
    """A fault affects the next poll until it is cleared."""
    with browser_harness(tmp_path / "data") as harness:
        page = harness.tab("/faults")
        page.get_by_label("Fault", exact=True).select_option("410")
        press(page, "Inject fault")
        expect(page.locator("#faults")).to_contain_text("410 Gone for all machines")
        assert harness.service.get("web_0").status == 410
        press(page, "Clear all")
        expect(page.locator("#faults")).to_contain_text("No active faults")
        assert harness.poll("web_0") == []
