"""The web page, in a real browser."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.fixtures.requirements import needs_chromium
from tests.real.browser import PHONE, Scheme, barriers, browser_harness, event_of, overflow, press

pytestmark = needs_chromium

PATHS = (
    "/",
    "/machines/web_1",
    "/machines/new",
    "/sets/web",
    "/sets/new",
    "/rollouts",
    "/rollouts/new",
    "/rollouts/patches",
    "/scenarios",
    "/journal",
    "/faults",
    "/login",
    "/machines/nobody",
)


@pytest.mark.spec("O8", "T8")
def test_a_set_is_made_and_shrunk_and_its_instance_leaves_once_approved(tmp_path: Path) -> None:
    """Termination notice is on: Terminate appears by itself, is approved, and carried out."""
    with browser_harness(tmp_path / "data") as harness:
        page = harness.tab("/sets/new")
        page.get_by_label("Name").fill("shop")
        page.get_by_label("Instances").fill("2")
        page.get_by_role("tab", name="Management").click()
        page.get_by_label("On: instances").check()
        page.get_by_label("Termination delay").fill("7")
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", name="shop", exact=True)).to_be_visible()
        expect(page.locator("#notice")).to_contain_text("with termination notice")
        expect(page.locator("#facts")).to_contain_text("7 min")
        harness.poll("shop_0")

        fleet = harness.open(page.context)  # looks on, and is never touched
        page.get_by_label("Scale to").fill("1")
        press(page, "Scale")
        expect(page.locator("#notice")).to_contain_text("Terminate scheduled for shop_1")
        row = fleet.locator("#timeline .row", has_text="shop_1")
        expect(row).to_contain_text("in 7:00")
        assert harness.poll("shop_0") == ["Terminate"]

        page.goto(event_of(page, "shop_1"))
        press(page, "Approve")
        expect(page.get_by_role("button", name="Approve")).to_have_count(0)
        page.get_by_role("button", name="+1 min").click()
        expect(page.locator("#state")).to_contain_text("Ended")
        expect(row).to_contain_text("ended")
        expect(fleet.locator("#machines")).to_contain_text("shop_0")
        expect(fleet.locator("#machines")).not_to_contain_text("shop_1")
        assert harness.poll("shop_0") == []


@pytest.mark.spec("O8", "O5")
def test_a_restart_says_first_what_it_does_and_time_carries_it_out(tmp_path: Path) -> None:
    """At once where nobody polls; with notice where somebody does, until time is advanced."""
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
        expect(action).to_contain_text("Unavailable:")
        expect(page.get_by_role("button", name="Restart")).to_be_disabled()
        page.get_by_role("button", name="+5 min").click()
        expect(page.locator("#state")).to_contain_text("Reboot in 10:00")
        page.get_by_label("Minutes to advance").fill("11.5")
        page.get_by_role("button", name="Advance", exact=True).click()
        expect(page.locator("#state")).not_to_contain_text("Reboot")
        expect(page.locator("#activity")).to_contain_text("because NotBefore was reached")
        assert harness.poll("web_0") == []


@pytest.mark.spec("O5")
def test_the_clock_runs_and_is_paused(tmp_path: Path) -> None:
    """At a multiple of real time the clock and every countdown go on by themselves."""
    with browser_harness(tmp_path / "data") as harness:
        harness.poll("web_0")
        page = harness.tab("/machines/web_0")
        press(page, "Restart")
        page.get_by_role("button", name="60").click()
        expect(page.locator("#clock")).to_contain_text("running at")
        expect(page.get_by_role("button", name="60")).to_have_attribute("aria-pressed", "true")
        expect(page.locator("#state")).not_to_contain_text("Reboot in 15:00")
        page.get_by_role("button", name="Pause clock").click()
        expect(page.locator("#clock")).to_contain_text("paused")


@pytest.mark.spec("O8")
def test_two_tabs_agree(tmp_path: Path) -> None:
    """What one does shows in the other, and neither loses what its reader was at."""
    with browser_harness(tmp_path / "data") as harness:
        harness.poll("web_0")
        one, other = harness.tab("/"), harness.tab("/")
        page = harness.tab("/machines/web_1")
        press(page, "Restart")
        for tab in (one, other):
            expect(tab.locator("#timeline .row", has_text="web_1")).to_contain_text("in 15:00")
        other.get_by_text("Show as table").click()
        other.get_by_label("Filter by name").fill("half a wo")
        page.goto(event_of(page, "web_1"))
        press(page, "Cancel")
        for tab in (one, other):
            expect(tab.locator("#timeline .row", has_text="web_1")).to_contain_text("cancelled")
        expect(other.get_by_role("table")).to_contain_text("cancelled")  # still open
        expect(other.get_by_label("Filter by name")).to_have_value("half a wo")
        expect(other.get_by_label("Filter by name")).to_be_focused()


def reach(page: Page, name: str) -> None:
    """Go on with Tab until what is called so has the focus."""
    said = "document.activeElement.labels?.[0]?.innerText || document.activeElement.innerText"
    for _ in range(60):
        page.keyboard.press("Tab")
        if str(page.evaluate(said)).strip().startswith(name):
            assert page.evaluate("document.activeElement.matches(':focus-visible')")
            return
    raise AssertionError(f"{name!r} cannot be reached by Tab")


@pytest.mark.spec("O8")
def test_a_set_is_made_by_keyboard_alone(tmp_path: Path) -> None:
    """From the fleet to the new set: Tab, Enter, Space, arrows and letters."""
    with browser_harness(tmp_path / "data") as harness:
        page = harness.tab("/")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # the first thing there is skips to the content
        assert page.evaluate("document.activeElement.id") == "main"
        reach(page, "New scale set")
        page.keyboard.press("Enter")
        page.wait_for_url("**/sets/new")
        reach(page, "Name")
        page.keyboard.type("shop")
        reach(page, "Instances")
        page.keyboard.press("Control+A")
        page.keyboard.type("1")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("ArrowRight")  # to the tab Management
        expect(page.get_by_role("tab", name="Management")).to_be_focused()
        reach(page, "Off:")
        page.keyboard.press("ArrowUp")
        expect(page.get_by_label("On: instances")).to_be_checked()
        reach(page, "Create")
        page.keyboard.press("Space")
        expect(page.get_by_role("heading", name="shop", exact=True)).to_be_visible()
        expect(page.locator("#facts")).to_contain_text("5 min")


@pytest.mark.spec("O8")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_kept_out_and_nothing_runs_off_a_phone(tmp_path: Path, scheme: Scheme) -> None:
    """Axe finds nothing serious on any page, wide or narrow, and none scrolls sideways."""
    with browser_harness(tmp_path / "data") as harness:
        event = event_of(harness.lively(), "web_2")
        wide, narrow = harness.context(scheme=scheme), harness.context(PHONE, scheme)
        for path in (*PATHS, event):
            page = harness.open(wide, path)
            assert (path, barriers(page)) == (path, [])
            page.close()
            page = harness.open(narrow, path)
            assert (path, overflow(page)) == (path, 0)
            page.close()
        assert barriers(harness.open(narrow, "/")) == []


@pytest.mark.spec("O8")
def test_without_script_everything_reads_and_forms_work(tmp_path: Path) -> None:
    """Pages say all, forms redirect and say what was done, and a refusal keeps what was typed."""
    with browser_harness(tmp_path / "data") as harness:
        harness.lively().context.close()
        page = harness.open(harness.context(script=False), "/")
        expect(page.locator("#timeline .row")).to_have_count(5)  # with the axis
        expect(page.locator("#machines")).to_contain_text("web_2")

        page.goto("/sets/new")
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
        expect(page.locator("#notice")).to_have_text("")  # it is said once

        page.goto(event_of(page, "web_2"))
        page.get_by_role("button", name="Approve").click()
        expect(page.locator("#notice")).to_contain_text("Event approved")
        page.get_by_role("button", name="+15 min").click()
        expect(page.locator("#state")).to_contain_text("Ended")


@pytest.mark.spec("O8")
def test_a_reader_sees_everything_and_has_no_buttons(tmp_path: Path) -> None:
    """Who logs in with a reader's token is shown what operators are, and can change nothing."""
    with browser_harness(tmp_path / "data") as harness:
        event = event_of(harness.lively(), "web_2")
        made = harness.service.run("token", "looker", "--role", "reader")
        context = harness.browser.new_context(base_url=harness.service.ready["console"])
        page = harness.open(context, "/machines/web_1")  # leads to the login
        page.get_by_label("Token").fill(made.stdout.strip())
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("#machines")).to_contain_text("web_2")
        for path in ("/", "/machines/web_2", "/sets/web", "/rollouts/patches", "/faults", event):
            page.goto(path)
            labels = page.get_by_role("button").all_inner_texts()
            assert set(labels) <= {"Filter", "Log out"}, path
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()


@pytest.mark.spec("O8")
def test_scenarios_are_run_and_faults_set_and_cleared(tmp_path: Path) -> None:
    """A verdict is told on the page; a fault is met by the next poll, until it is cleared."""
    with browser_harness(tmp_path / "data") as harness:
        page = harness.tab("/scenarios")
        press(page, "Run spot-eviction")
        expect(page.locator("#notice")).to_contain_text("spot-eviction passed")
        page.goto("/faults")
        page.get_by_label("Fault", exact=True).select_option("410")
        press(page, "Inject fault")
        expect(page.locator("#faults")).to_contain_text("410 Gone for all machines")
        assert harness.service.get("web_0").status == 410
        press(page, "Clear all")
        expect(page.locator("#faults")).to_contain_text("No active faults")
        assert harness.poll("web_0") == []
