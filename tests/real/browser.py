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

    def act(self, path: str, **body: object) -> None:
        """Send a command to the operator API."""
        self.service.ok("POST", f"/api/{path}", body)

    def event_of(self, machine: str) -> str:
        """The id of a machine's latest event."""
        events = self.service.ok("GET", f"/api/events?machine={machine}")["events"]
        return str(events[0]["id"])

    def start_events(self) -> None:
        """Create scheduled, started and finished events."""
        for machine in ("web_0", "db_0", "batch_0"):
            self.poll(machine)
        self.act("machines/web_2/restart")
        self.act("machines/batch_0/evict")
        self.act("rollouts", id="patches", scopes=["db"])
        self.service.advance(60)
        self.act("sets/web/scale", capacity=2)

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


def open_clock(page: Page) -> None:
    """Show the controls of the clock."""
    page.locator("details.clock:not([open]) summary").click()
