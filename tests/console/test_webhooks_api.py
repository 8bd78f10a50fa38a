"""Webhooks over the API."""

import json

import pytest

from tests.fixtures.console import ConsoleHarness
from tests.fixtures.receiver import Receiver, ReceiverResponse


@pytest.mark.spec("C4")
def test_a_webhook_from_creation_to_deletion() -> None:
    """Its secret is shown once; it can be tested, receives events, and is deleted."""
    with ConsoleHarness() as console, Receiver(lambda _: ReceiverResponse(204)) as receiver:
        url = receiver.url
        created = console.api(
            "POST",
            "/api/webhooks",
            {"name": "hook", "url": url, "secret": "s" * 32},
        )
        assert created.status == 201, created.body
        assert (created.json["name"], created.json["url"]) == ("hook", url)
        (listed,) = console.ok("GET", "/api/webhooks")["webhooks"]
        assert (listed["name"], listed["url"]) == ("hook", f"http://127.0.0.1:{receiver.port}")
        assert "s" * 32 not in json.dumps(listed)
        assert console.ok("POST", "/api/webhooks/hook/test") == {"status": 204}
        assert len(receiver.requests) == 1
        console.polling("vm")
        event = console.act("vm", "restart")["events"][0]["id"]
        console.wait_until(
            lambda: any(event in request.body.decode() for request in receiver.posts)
        )
        assert console.api("POST", "/api/webhooks", {"name": "hook", "url": url}).status == 409
        assert console.api("DELETE", "/api/webhooks/hook").status == 204
        assert console.ok("GET", "/api/webhooks") == {"webhooks": []}


@pytest.mark.spec("C4")
@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/api/webhooks", {"name": "x"}, 400),
        ("POST", "/api/webhooks", {"name": "x", "url": "ftp://127.0.0.1/"}, 400),
        ("POST", "/api/webhooks", {"name": "x", "url": "http://10.255.255.1/"}, 400),
        ("POST", "/api/webhooks", {"name": "x", "url": "http://169.254.169.254/"}, 400),
        ("POST", "/api/webhooks", {"name": "", "url": "http://127.0.0.1/"}, 400),
        ("DELETE", "/api/webhooks/none", None, 404),
        ("POST", "/api/webhooks/none/test", None, 404),
    ],
)
def test_refusals(
    console: ConsoleHarness, method: str, path: str, body: object, status: int
) -> None:
    """A refused request sends nothing and stores nothing."""
    before = console.state()
    reply = console.api(method, path, body)
    assert reply.status == status
    assert reply.error_code
    assert console.state() == before
