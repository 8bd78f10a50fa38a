"""A real browser on a real service: Debian's chromium, driven by playwright."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
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
PICTURED = """
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


class BrowserHarness:
    """A service with a virtual clock, and a browser to look at it with."""

    def __init__(self, service: ServiceProcess, browser: Browser) -> None:
        self.service = service
        self.browser = browser
        self.complaints: list[str] = []
        """What browsers said went wrong: errors on their consoles, policies that were violated."""

    def context(
        self, size: tuple[int, int] = WIDE, scheme: Scheme = "light", *, script: bool = True
    ) -> BrowserContext:
        """A window that is logged in: it opened the link that `up` printed."""
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
        """A tab, whose complaints are noted."""
        page = context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("requestfailed", lambda request: self._failed(request.url, request.failure))
        page.goto(path)
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        # A form that is refused is answered with 4xx, which browsers report as an error.
        if message.type == "error" and "status of 4" not in message.text:
            self.complaints.append(message.text)

    def _failed(self, url: str, failure: str | None) -> None:
        # A tab that goes on, or is closed, gives up what it was asking for.
        if failure != "net::ERR_ABORTED":
            self.complaints.append(f"{url}: {failure}")

    def poll(self, machine: str) -> list[str]:
        """The types of the events that a machine reads."""
        return [event["EventType"] for event in self.service.poll(machine)["Events"]]

    def lively(self) -> Page:
        """Something is coming, something is under way, something is over; a tab that saw to it."""
        for machine in ("web_0", "db_0", "batch_0"):
            self.poll(machine)
        page = self.tab("/machines/web_2")
        press(page, "Restart")
        page.goto("/machines/batch_0")
        press(page, "Evict")
        page.goto("/rollouts/new")
        page.get_by_label("Name").fill("patches")
        page.get_by_label("Scopes", exact=True).fill("db")
        page.get_by_role("button", name="Start", exact=True).click()
        expect(page.get_by_role("heading", name="patches")).to_be_visible()
        page.get_by_role("button", name="+1 min").click()
        expect(page.locator("#notice")).to_contain_text("Advanced")
        page.goto("/sets/web")
        page.get_by_label("Scale to").fill("2")
        press(page, "Scale")
        return page

    def tab(self, path: str = "/") -> Page:
        """A tab of a window of its own."""
        return self.open(self.context(), path)


@contextmanager
def browser_harness(data: Path, fleet: str = FLEET) -> Iterator[BrowserHarness]:
    """All of it; whatever the browser complained about is a failure."""
    with (
        ServiceProcess(data, "--clock", "virtual", "--memory", fleet=fleet) as service,
        sync_playwright() as playwright,
    ):
        expect.set_options(timeout=_LIMIT_MILLISECONDS)
        # Root has no sandbox of its own to put it in; it visits nobody but us.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            harness = BrowserHarness(service, browser)
            yield harness
            assert harness.complaints == []
        finally:
            browser.close()


def press(page: Page, name: str) -> None:
    """Click a button, and wait for what is said of it."""
    page.get_by_role("button", name=name, exact=True).click()
    expect(page.locator("#notice p")).to_be_visible()


def event_of(page: Page, machine: str) -> str:
    """Where the event of a machine is shown, as the timeline says."""
    page.goto("/")
    label = page.locator("#timeline .row a.label", has_text=machine).first
    return label.get_attribute("href") or ""


def barriers(page: Page) -> list[str]:
    """What axe finds that keeps people out: serious or critical."""
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"]
    ]


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def eventful(harness: BrowserHarness) -> Page:
    """Half an hour of a busy fleet, for pictures: one of everything on the timeline."""
    for machine in ("web_0", "db_0", "batch_0", "FrontEnd_IN_0"):
        harness.poll(machine)
    page = harness.tab("/machines/batch_0")
    press(page, "Evict")
    page.goto("/machines/FrontEnd_IN_1")
    press(page, "Redeploy")
    advance(page, "12")
    page.goto("/machines/web_5")
    press(page, "Restart")
    page.goto("/rollouts/new")
    page.get_by_label("Name").fill("patches")
    page.get_by_label("Scopes", exact=True).fill("db")
    page.get_by_role("button", name="Start", exact=True).click()
    advance(page, "4")
    page.goto(event_of(page, "web_5"))
    press(page, "Cancel")
    advance(page, "9")
    page.goto("/machines/web_2")
    press(page, "Restart")
    page.goto("/sets/web")
    page.get_by_label("Scale to").fill("10")
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


def advance(page: Page, minutes: str) -> None:
    """Let time pass."""
    page.get_by_label("Minutes to advance").fill(minutes)
    page.get_by_role("button", name="Advance", exact=True).click()
    expect(page.locator("#notice")).to_contain_text("Advanced")


def main() -> None:
    """Take the pictures of the documentation: `python -m tests.real.browser`."""
    folder = Path("docs/images")
    with TemporaryDirectory() as name, browser_harness(Path(name) / "data", PICTURED) as harness:
        page = eventful(harness)
        event = event_of(page, "web_2")
        pictures: tuple[tuple[str, str, tuple[int, int], Scheme], ...] = (
            ("page-light", "/", WIDE, "light"),
            ("page-dark", "/", WIDE, "dark"),
            ("page-phone", "/", PHONE, "light"),
            ("page-event", event, WIDE, "light"),
            ("page-rollout", "/rollouts/patches", WIDE, "dark"),
        )
        for picture, path, size, scheme in pictures:
            tab = harness.open(harness.context(size, scheme), path)
            tab.screenshot(path=folder / f"{picture}.png")
            tab.context.close()


if __name__ == "__main__":
    main()
