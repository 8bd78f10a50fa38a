"""The page of webhooks."""

import re
from collections.abc import Iterator
from html import unescape

import pytest

from tests.console.test_page import NOTICE, Browser
from tests.fixtures.console import ConsoleHarness
from tests.fixtures.receiver import Receiver, ReceiverResponse, in_turn
from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.spec("O8")


@pytest.fixture
def console() -> Iterator[ConsoleHarness]:
    """A machine that polls."""
    with ConsoleHarness() as harness:
        harness.created("machines", name="vm")
        harness.poll("vm")
        yield harness


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver that agrees to everything."""
    with Receiver() as harness:
        yield harness


def row(text: str, name: str) -> str:
    """The row of a webhook, as text."""
    match = re.search(rf'<tr data-key="{name}">.*?</tr>', text, re.DOTALL)
    assert match is not None
    return unescape(re.sub(r"<[^>]+>", " ", match[0]))


def notice_of(text: str) -> str:
    """The notice of a page."""
    match = NOTICE.search(text)
    assert match is not None
    return unescape(match[1] or "")


def test_the_secret_of_a_new_webhook_is_shown_once(
    console: ConsoleHarness, receiver: Receiver
) -> None:
    """It signs the messages; neither the page nor the API shows it again."""
    browser = Browser(console)
    reply = browser.post("/webhooks", name="pager", url=receiver.url)
    assert (reply.status, reply.headers["location"]) == (303, "/webhooks")
    text = browser.text("/webhooks")
    secret = notice_of(text).rpartition(" ")[2]
    assert len(secret) > 30
    assert "shown only now" in text
    assert secret not in browser.text("/webhooks")
    assert secret not in str(console.ok("GET", "/api/webhooks"))
    assert f"http://127.0.0.1:{receiver.port} " in row(text, "pager")
    assert "following" in row(text, "pager")


def test_the_page_shows_what_was_delivered(console: ConsoleHarness, receiver: Receiver) -> None:
    """Its counters are those of `webhook list`."""
    browser = Browser(console)
    browser.post("/webhooks", name="pager", url=receiver.url)
    console.act("vm", "restart")
    wait_until(lambda: console.ok("GET", "/api/webhooks")["webhooks"][0]["delivered"] == 1)
    assert re.search(r"following\s+1\s+0\s+none", row(browser.text("/webhooks"), "pager"))


def test_a_test_message_shows_the_answer(console: ConsoleHarness) -> None:
    """A refusal of the receiver is shown beside the button, as is no answer at all."""
    browser = Browser(console)
    with Receiver(in_turn(ReceiverResponse(204), ReceiverResponse(500))) as receiver:
        browser.post("/webhooks", name="pager", url=receiver.url)
        browser.text("/webhooks")
        assert browser.post("/webhooks/pager/test").status == 303
        assert notice_of(browser.text("/webhooks")) == (
            "The receiver of pager answered with status 204."
        )
        failed = browser.post("/webhooks/pager/test")
        assert failed.status == 409
        assert "answered with status 500" in row(failed.body.decode(), "pager")
    gone = browser.post("/webhooks/pager/test")
    assert gone.status == 400
    assert "webhook 'pager' did not answer" in row(gone.body.decode(), "pager")


def test_removing_a_webhook_is_confirmed_first(console: ConsoleHarness, receiver: Receiver) -> None:
    """The button is folded, with what removal means beside it; it works without script."""
    browser = Browser(console)
    browser.post("/webhooks", name="pager", url=receiver.url)
    text = browser.text("/webhooks")
    details = re.search(r"<details><summary>Remove.*?</details>", text, re.DOTALL)
    assert details is not None
    assert 'action="/webhooks/pager/remove"' in details[0]
    assert "Deliveries stop at once" in details[0]
    assert text.count('action="/webhooks/pager/remove"') == 1
    assert browser.post("/webhooks/pager/remove").status == 303
    text = browser.text("/webhooks")
    assert notice_of(text) == "Webhook pager removed."
    assert "No webhooks yet." in text
    assert console.ok("GET", "/api/webhooks") == {"webhooks": []}
    assert browser.post("/webhooks/pager/remove").status == 404
