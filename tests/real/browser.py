"""A real browser for a real service: Debian's Chromium with Playwright."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

from tests.fixtures.requirements import CHROMIUM
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS

WIDE = (1280, 800)
PHONE = (390, 844)
FLEET = """
[[scale_set]]
name = "web"
capacity = 3
terminate_notice = "PT5M"

[[availability_set]]
name = "db"
machines = 2

[[machine]]
name = "batch"
count = 2
priority = "Spot"
eviction = "Delete"
"""
SCREENSHOT_FLEET = """
[[scale_set]]
name = "web"
capacity = 12
terminate_notice = "PT10M"

[[availability_set]]
name = "db"
machines = 3

[[machine]]
name = "batch"
count = 5
priority = "Spot"
eviction = "Delete"

[[cloud_service]]
name = "legacy"
roles = { FrontEnd = 2 }
"""
_LIMIT_MILLISECONDS = 1000 * LIMIT_SECONDS

Scheme = Literal["light", "dark"]
LOOKS: tuple[tuple[tuple[int, int], Scheme], ...] = (
    (WIDE, "light"),
    (PHONE, "dark"),
    (WIDE, "dark"),
    (PHONE, "light"),
)
"""The first two have both sizes and both schemes."""


class BrowserHarness:
    """A service with a virtual clock, and a browser."""

    def __init__(self, service: ServiceProcess, browser: Browser) -> None:
        self.service = service
        self.browser = browser
        self.problems: list[str] = []
        """Console errors, page errors and failed requests of the browser."""

    def context(
        self, size: tuple[int, int] = WIDE, scheme: Scheme = "light", *, script: bool = True
    ) -> BrowserContext:
        """Return a logged-in browser context, which has opened the link of `up`."""
        context = self.browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            java_script_enabled=script,
            base_url=self.service.ready["console"],
        )
        context.set_default_timeout(_LIMIT_MILLISECONDS)
        page = context.new_page()
        page.goto(self.service.ready["page"])
        page.close()
        return context

    def open(self, context: BrowserContext, path: str = "/") -> Page:
        """Open a tab, and record its problems."""
        page = context.new_page()
        page.on("console", self._record_console)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("requestfailed", lambda request: self._record_failure(request.url, request.failure))
        page.goto(path)
        return page

    def _record_console(self, message: ConsoleMessage) -> None:
        # Browsers report the 4xx response of a refused form as an error.
        if message.type == "error" and "status of 4" not in message.text:
            self.problems.append(message.text)

    def _record_failure(self, url: str, failure: str | None) -> None:
        # A tab that navigates or closes aborts its requests.
        if failure != "net::ERR_ABORTED":
            self.problems.append(f"{url}: {failure}")

    def poll(self, machine: str) -> list[str]:
        """Return the types of the events that a machine sees."""
        return [event["EventType"] for event in self.service.poll(machine)["Events"]]

    def start_events(self) -> Page:
        """Create scheduled, started and finished events, and return the tab that did."""
        for machine in ("web_0", "db_0", "batch_0"):
            self.poll(machine)
        page = self.tab("/machines/web_2")
        press(page, "Restart")
        page.goto("/machines/batch_0")
        press(page, "Evict")
        page.goto("/new/rollout")
        page.get_by_label("Name").fill("patches")
        page.get_by_label("Scopes", exact=True).fill("db")
        page.get_by_role("button", name="Start", exact=True).click()
        expect(page.get_by_role("heading", name="patches")).to_be_visible()
        open_clock(page)
        page.get_by_role("button", name="+1 min").click()
        expect(page.locator("#notice")).to_contain_text("Advanced")
        page.goto("/sets/web")
        page.get_by_label("Scale to").fill("2")
        press(page, "Scale")
        return page

    def tab(self, path: str = "/") -> Page:
        """Open a tab in a new browser context."""
        return self.open(self.context(), path)


@contextmanager
def browser_harness(data: Path, fleet: str = FLEET) -> Iterator[BrowserHarness]:
    """Start a service and a browser; fail if the browser has recorded problems."""
    with (
        ServiceProcess(data, "--clock", "virtual", "--memory", fleet=fleet) as service,
        sync_playwright() as playwright,
    ):
        expect.set_options(timeout=_LIMIT_MILLISECONDS)
        # Chromium has no sandbox for root; it only visits our own service.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            harness = BrowserHarness(service, browser)
            yield harness
            assert harness.problems == []
        finally:
            browser.close()


def press(page: Page, name: str) -> None:
    """Click a button, and wait for the notice."""
    page.get_by_role("button", name=name, exact=True).click()
    expect(page.locator("#notice p")).to_be_visible()


def event_of(page: Page, machine: str) -> str:
    """Return the link of the list of events to a machine's event."""
    page.goto(f"/events?machine={machine}")
    return page.locator("main tbody a[href^='/events/']").first.get_attribute("href") or ""


def violations(page: Page) -> list[str]:
    """Return the serious and critical accessibility violations that axe reports."""
    reported = Axe().run(page).response["violations"]
    return [
        f"{violation['id']}: {node['target']} {node['failureSummary']}"
        for violation in reported
        if violation["impact"] in {"serious", "critical"}
        for node in violation["nodes"]
    ]


def overflow(page: Page) -> int:
    """Return by how many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def fill_timeline(harness: BrowserHarness) -> Page:
    """Create half an hour of events of every kind on the timeline, for screenshots."""
    for machine in ("web_0", "db_0", "batch_0", "FrontEnd_IN_0"):
        harness.poll(machine)
    page = harness.tab("/machines/batch_0")
    press(page, "Evict")
    page.goto("/machines/FrontEnd_IN_1")
    press(page, "Redeploy")
    advance(page, "12")
    page.goto("/machines/web_5")
    press(page, "Restart")
    page.goto("/new/rollout")
    page.get_by_label("Name").fill("patches")
    page.get_by_label("Scopes", exact=True).fill("db")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("heading", name="patches")).to_be_visible()
    advance(page, "4")
    page.goto(event_of(page, "web_5"))
    press(page, "Cancel")
    advance(page, "9")
    page.goto("/machines/web_2")
    press(page, "Restart")
    page.goto("/sets/web")
    page.get_by_label("Scale to").fill("10")
    page.get_by_role("button", name="Scale", exact=True).click()
    expect(page.get_by_role("heading", name="Scale web to 10")).to_be_visible()
    press(page, "Scale")
    page.goto("/machines/web_7")
    press(page, "Redeploy")
    advance(page, "3")
    page.goto(event_of(page, "web_7"))
    press(page, "Approve")
    advance(page, "2")
    page.goto("/machines/db_2")
    press(page, "Degrade")
    harness.poll("web_2")
    harness.poll("web_3")
    return page


def open_clock(page: Page) -> None:
    """Show the controls of the clock."""
    page.locator("details.clock:not([open]) summary").click()


def advance(page: Page, minutes: str) -> None:
    """Let time pass."""
    page.goto("/")
    open_clock(page)
    page.get_by_label("Minutes to advance").fill(minutes)
    page.get_by_role("button", name="Advance", exact=True).click()
    expect(page.locator("#notice")).to_contain_text("Advanced")
