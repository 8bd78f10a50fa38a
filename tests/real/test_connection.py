"""The page without its service, in a real browser: what it shows is old, and it says so."""

from pathlib import Path

import pytest
from playwright.sync_api import Request, Route, expect, sync_playwright

from tests.fixtures.requirements import CHROMIUM, needs_chromium
from tests.fixtures.service import ServiceProcess
from tests.real.browser import (
    FLEET,
    PHONE,
    WIDE,
    BrowserHarness,
    browser_harness,
    open_clock,
    overflow,
    press,
)

pytestmark = [needs_chromium, pytest.mark.spec("O8")]

FAST = "Run at \N{MULTIPLICATION SIGN}60"


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


@pytest.mark.parametrize(
    ("waited", "pause"), [(9, 5), (10, 1)], ids=["late answer", "no answer in time"]
)
def test_a_page_asks_again_soon_after_a_hang(tmp_path: Path, waited: int, pause: int) -> None:
    """However long the service took, and not after four times that; the test moves the time."""
    with browser_harness(tmp_path / "data") as harness:
        page = harness.context().new_page()
        held: list[Route] = []

        def hold(route: Route) -> None:
            if route.request.resource_type == "document":
                route.continue_()
            else:
                held.append(route)

        def is_update(request: Request) -> bool:
            return request.url == page.url and request.resource_type == "fetch"

        page.route(f"{harness.service.ready['console']}/", hold)
        page.clock.install(time=0)
        page.clock.pause_at(1)
        with page.expect_request(is_update):
            page.goto("/")
        time = page.locator("#clock [data-clock]")
        shown = time.inner_text()
        page.clock.run_for(1000 * waited)
        if waited < 10:
            harness.service.advance(60)
            held.pop().continue_()
            expect(time).not_to_have_text(shown)
        else:
            expect(page.locator("#lost")).to_be_visible()
        page.unroute_all()
        with page.expect_request(is_update):
            page.clock.run_for(1000 * pause)
        expect(page.locator("#lost")).to_be_hidden()
