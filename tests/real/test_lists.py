"""Finding one thing among many, and acting on all that match, in a real browser."""

from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.fixtures.requirements import needs_chromium
from tests.real.browser import (
    LOOKS,
    PHONE,
    WIDE,
    BrowserHarness,
    Scheme,
    browser_harness,
    overflow,
    press,
    violations,
)

pytestmark = [needs_chromium, pytest.mark.spec("O8", "O14")]

FLEET = """
[[scale_set]]
name = "web"
capacity = 300
"""
PATHS = ("/sets", "/operations?machine=web_1", "/events?set=web&size=50", "/search?q=web_", "/help")
PAGE_BYTES = 120 * 1024


def restart(harness: BrowserHarness, count: int) -> None:
    """Schedule an event for each of the first machines."""
    harness.poll("web_0")
    harness.poll("web_100")
    harness.poll("web_200")
    for number in range(count):
        harness.service.ok("POST", f"/api/machines/web_{number}/restart", {})


def find(page: Page, text: str) -> None:
    """Type into the field of the header, and press Enter."""
    page.get_by_role("searchbox", name="Find", exact=True).fill(text)
    page.keyboard.press("Enter")


@pytest.mark.campaign
def test_one_search_leads_to_the_event_of_a_mail(tmp_path: Path) -> None:
    """By the id of the event, or the beginning of it; by a machine's name, to the machine."""
    with browser_harness(tmp_path / "data", FLEET) as harness:
        restart(harness, 30)
        events = harness.service.ok("GET", "/api/events?machine=web_17")["events"]
        page = harness.tab("/")
        for text in (events[0]["id"], events[0]["id"][:8]):
            find(page, text)
            expect(page.get_by_role("heading", name="Reboot of web_17")).to_be_visible()
        find(page, "web_17")
        page.get_by_role("link", name="Reboot in").click()
        expect(page.get_by_role("heading", name="Reboot of web_17")).to_be_visible()
        find(page, "web_1_")
        expect(page.locator("main")).to_contain_text("No machine, event")
        page.get_by_role("link", name="machines", exact=True).click()
        expect(page.locator("main")).to_contain_text("No machine matches.")


@pytest.mark.campaign
def test_all_that_match_are_cancelled_slice_by_slice(tmp_path: Path) -> None:
    """More than one request takes: the plan, the typed number, and the progress."""
    with browser_harness(tmp_path / "data", FLEET) as harness:
        restart(harness, 210)
        page = harness.tab("/events?set=web")
        page.get_by_role("link", name="Cancel 210 events…").click()
        expect(page.locator("main")).to_contain_text("210 machines in 3 scopes")
        cancel = page.get_by_role("button", name="Cancel 210 events")
        cancel.click()  # the browser asks for the number
        assert len(harness.service.ok("GET", "/api/events?limit=1000")["events"]) == 210
        page.get_by_label("Type 210").fill("210")
        slices: list[str] = []
        page.on("response", lambda response: slices.append(response.url))
        cancel.click()
        page.wait_for_url("**/events")
        assert sum(url.endswith("/events/confirm") for url in slices) == 2
        expect(page.locator("#notice")).to_contain_text("Cancelled 210 events.")
        assert harness.service.ok("GET", "/api/events")["events"] == []


def test_a_link_from_a_mail(tmp_path: Path) -> None:
    """It opens its page, also from another site; without a session, after the login."""
    with browser_harness(tmp_path / "data", FLEET) as harness:
        link = f"{harness.service.ready['console']}/events?{urlencode({'set': 'web'})}"
        page = harness.tab("/")
        page.goto("about:blank")
        page.set_content(f'<a href="{link}">the mail</a>')
        page.get_by_role("link", name="the mail").click()
        expect(page.get_by_label("Scale set")).to_have_value("web")

        token = harness.service.run("token", "create", "looker", "--role", "reader")
        stranger = harness.browser.new_context(base_url=harness.service.ready["console"])
        page = harness.open(stranger, link)
        for typed in ("wrong", token.stdout.strip()):
            page.get_by_label("Token").fill(typed)
            page.get_by_role("button", name="Log in").click()
        expect(page.get_by_label("Scale set")).to_have_value("web")
        assert page.url == link
        page.goto("/nowhere")
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()
        page.get_by_role("link", name="Machines").click()
        expect(page.get_by_role("heading", name="Machines")).to_be_visible()


def test_commands_are_copied(tmp_path: Path) -> None:
    """The button puts the command on the clipboard."""
    with browser_harness(tmp_path / "data", FLEET) as harness:
        context = harness.context()
        context.grant_permissions(["clipboard-read"])
        page = harness.open(context, "/machines/web_1")
        page.get_by_role("button", name="Copy fairwarning exec").click()
        expect(page.get_by_text("Copied")).to_be_visible()
        text = page.evaluate("navigator.clipboard.readText()")
        assert text == "fairwarning exec web_1 -- COMMAND"


@pytest.mark.campaign
def test_lists_are_paged(tmp_path: Path) -> None:
    """To older pages and back, and with more rows."""
    with browser_harness(tmp_path / "data", FLEET) as harness:
        page = harness.tab("/journal")
        first = page.locator("#journal tbody tr").first.get_attribute("data-key") or ""
        page.get_by_role("link", name="Older").click()
        page.get_by_role("link", name="Older").click()
        page.get_by_role("link", name="Newer").click()
        page.get_by_role("link", name="Newer").click()
        expect(page.locator("#journal tbody tr").first).to_have_attribute("data-key", first)
        page.goto("/machines?set=web")
        page.get_by_role("link", name="100", exact=True).click()
        expect(page.locator("#machines-list tbody tr")).to_have_count(100)
        assert len(page.content()) < PAGE_BYTES


@pytest.mark.campaign
@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_the_header_is_small(tmp_path: Path, size: tuple[int, int], scheme: Scheme) -> None:
    """One line on a screen, a fifth of a phone; and no page has a serious axe violation."""
    with browser_harness(tmp_path / "data", FLEET) as harness:
        restart(harness, 30)
        context = harness.context(size, scheme)
        for path in PATHS:
            page = harness.open(context, path)
            height = page.evaluate("document.querySelector('header').offsetHeight")
            assert height <= (50 if size == WIDE else PHONE[1] / 5), path
            tops = "[...document.querySelectorAll('header nav a')].map((link) => link.offsetTop)"
            assert len(set(page.evaluate(tops))) == 1
            assert (path, overflow(page), violations(page)) == (path, 0, [])
            page.close()
        page = harness.open(context, "/events?set=web")
        expect(page.get_by_label("Scale set")).to_be_visible()
        expect(page.get_by_label("Rollout")).to_be_hidden()
        page.get_by_text("More filters").click()
        expect(page.get_by_label("Rollout")).to_be_visible()
        assert overflow(page) == 0
        page.locator(".clock summary").click()
        press(page, "Run at \N{MULTIPLICATION SIGN}60")
        assert overflow(page) == 0
