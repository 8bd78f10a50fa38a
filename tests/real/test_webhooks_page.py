"""The page of webhooks, in a real browser."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.fixtures.receiver import Receiver
from tests.fixtures.requirements import needs_chromium
from tests.real.browser import FLEET, browser_harness, press

pytestmark = needs_chromium

ALLOWED = '[console]\nwebhook_hosts = ["127.0.0.1"]\n'


@pytest.mark.campaign
@pytest.mark.spec("O8")
def test_a_webhook_is_created_tested_and_removed(tmp_path: Path) -> None:
    """Its secret stays on the page while the list is updated; removing it takes two steps."""
    with (
        Receiver() as receiver,
        browser_harness(tmp_path / "data", ALLOWED + FLEET) as harness,
    ):
        page = harness.tab("/webhooks")
        page.get_by_label("Name").fill("pager")
        page.get_by_label("URL").fill(receiver.url)
        press(page, "Create")
        expect(page.locator("#webhooks")).to_contain_text("following")
        expect(page.locator("#notice")).to_contain_text("Its secret, shown only now:")
        press(page, "Test pager")
        expect(page.locator("#notice")).to_contain_text("answered with status 200")
        button = page.get_by_role("button", name="Remove pager")
        expect(button).to_be_hidden()
        page.locator("#webhooks summary").press("Enter")
        button.press("Enter")
        expect(page.locator("#webhooks")).to_contain_text("No webhooks yet.")
