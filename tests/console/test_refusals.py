"""What the API and the page refuse: the error says what is allowed, and nothing changes."""

from collections.abc import Iterator
from html import unescape
from urllib.parse import urlencode

import pytest

from tests.console.test_page import Browser
from tests.fixtures.console import ConsoleHarness

JAVASCRIPT = ("X-Page", "/")


@pytest.fixture(scope="module")
def console() -> Iterator[ConsoleHarness]:
    """A machine and a scale set that poll, another machine, and a rollout over it."""
    with ConsoleHarness() as harness:
        harness.created("machines", name="vm")
        harness.created("machines", name="spare_1")
        harness.created("sets", name="web", capacity=3, terminate_notice="PT5M")
        harness.poll("vm", "web_0")
        harness.ok("POST", "/api/rollouts", {"id": "running", "scopes": ["spare_1"]})
        yield harness


def unchanged(console: ConsoleHarness) -> object:
    """Whatever a request could change."""
    return console.clock.now(), console.state()


# --- Requests of the API --------------------------------------------------------------------------

NAMES = ["", " x", "a b", "..", ".", "a/b", "a,b", "x" * 201, "a\nb", "\ud800", None, 3, ["x"]]
CLOCKS = [
    b"{}", b'{"advance_seconds": 1, "rate": 1}', b'{"advance_seconds": -1}',
    b'{"advance_seconds": 1e12}', b'{"advance_seconds": NaN}', b'{"advance_seconds": Infinity}',
    b'{"advance_seconds": 1e400}', b'{"advance_seconds": true}', b'{"advance_seconds": "60"}',
    b'{"advance_seconds": null}', b'{"advance_seconds": [1]}',
    b'{"rate": -1}', b'{"rate": 1e7}', b'{"rate": 1e400}', b'{"rate": true}', b'{"rate": "1"}',
    b'{"advance_seconds": ' + b"9" * 400 + b"}", b'{"rate": ' + b"9" * 5000 + b"}",
    b'{"now": "2026-01-09T12:00:00Z"}', b'{"advance_seconds": -0.001}',
]  # fmt: skip
ROLLOUT = {"scopes": ["vm"]}
POSTS: dict[str, list[tuple[object, int]]] = {
    "/api/machines": [
        *(({"name": name}, 400) for name in NAMES),
        ({"name": "vm"}, 409),
        ({"name": "spare", "count": 3}, 409),  # one of the names is taken
        ({"name": "spare_1", "group": "new"}, 409),
    ],
    "/api/machines/vm/jump": [({}, 404)],
    "/api/machines/vm/restart": [({"days": 1}, 400)],
    "/api/machines/vm/maintain": [({"kind": "delete"}, 400)],
    "/api/machines/vm/freeze": [
        ({"days": 1}, 400),
        ({"duration_seconds": -2}, 400),
        ({"duration_seconds": 10**30}, 400),
        ({"duration_seconds": True}, 400),
        ({"duration_seconds": "9"}, 400),
        ({"unknown": 1}, 400),
    ],
    "/api/machines/vm/degrade": [
        ({"days": -1}, 400),
        ({"days": 8}, 400),
        ({"days": "1"}, 400),
        ({"days": 1e305}, 400),
        ({"days": 1e308}, 400),
    ],
    "/api/sets": [
        ({"name": "x"}, 400),
        ({"name": "x", "capacity": -1}, 400),
        ({"name": "x", "capacity": 1001}, 400),
        ({"name": "x", "capacity": 1.5}, 400),
        ({"name": "x", "capacity": 1, "terminate_notice": "PT4M59S"}, 400),
        ({"name": "x", "capacity": 1, "terminate_notice": "PT15M1S"}, 400),
        ({"name": "x", "capacity": 1, "upgrade": "Rolling"}, 400),
        ({"name": "x", "capacity": 1, "colour": "red"}, 400),
        ({"name": "a/b", "capacity": 1}, 400),
        ({"name": "web", "capacity": 1}, 409),
    ],
    "/api/sets/web/scale": [({}, 400), ({"capacity": True}, 400), ({"capacity": 1001}, 400)],
    "/api/sets/none/scale": [({"capacity": 1}, 404)],
    "/api/sets/web/delete": [({}, 400), ({"instances": []}, 400)],
    "/api/sets/web/restart": [
        ({"instances": [0, 0]}, 400),
        ({"instances": [7]}, 404),
        ({"instances": ["0"]}, 400),
        ({"instances": [10**30]}, 400),
    ],
    "/api/sets/web/upgrade": [({"instances": [7]}, 404)],
    "/api/sets/web/freeze": [({}, 404)],
    "/api/rollouts": [
        (ROLLOUT | {"id": "a/b"}, 400),
        (ROLLOUT | {"kind": "delete"}, 400),
        (ROLLOUT | {"batch": 0}, 400),
        (ROLLOUT | {"batch": 101}, 400),
        (ROLLOUT | {"batch": 1.5}, 400),
        (ROLLOUT | {"halt_percent": -1}, 400),
        (ROLLOUT | {"halt_percent": 101}, 400),
        (ROLLOUT | {"halt_percent": True}, 400),
        (ROLLOUT | {"halt_percent": "5"}, 400),
        (ROLLOUT | {"scopes": ["none"]}, 404),
        (ROLLOUT | {"sets": ["none"]}, 404),
        (ROLLOUT | {"scopes": "vm"}, 400),
        (ROLLOUT | {"hosts": ["none"]}, 400),
        *((ROLLOUT | {choice: []}, 400) for choice in ("scopes", "sets", "hosts")),  # not all
        (ROLLOUT | {"duration_seconds": -5}, 400),
        (ROLLOUT | {"by_host": 1}, 400),
        (ROLLOUT | {"colour": "red"}, 400),
        (ROLLOUT | {"id": "running"}, 409),
    ],
    "/api/clock": [(body, 400) for body in CLOCKS],
    "/api/faults": [
        ({}, 400),
        ({"kind": "502"}, 400),
        ({"kind": 500}, 400),
        ({"kind": "500", "count": -1}, 400),
        ({"kind": "500", "count": 1.5}, 400),
        ({"kind": "500", "count": 10**30}, 400),
        ({"kind": "500", "seconds": -1}, 400),
        ({"kind": "500", "seconds": True}, 400),
        ({"kind": "delay", "delay_seconds": 121}, 400),
        ({"kind": "500", "machine": "none"}, 404),
        ({"kind": "500", "scope": "none"}, 404),
        ({"kind": "500", "for": "all"}, 400),
    ],
    "/api/webhooks": [
        ({"name": "x"}, 400),
        ({"name": "x", "url": "http://169.254.169.254/"}, 400),
        ({"name": "", "url": "http://127.0.0.1/"}, 400),
    ],
    "/api/webhooks/none/test": [(None, 404)],
}
OTHERS: list[tuple[str, str, object, int]] = [
    ("PATCH", "/api/sets/web", {"terminate_notice": "PT1M"}, 400),
    ("PATCH", "/api/sets/web", {"terminate_notice": 300}, 400),
    ("PATCH", "/api/sets/web", {"upgrade": None}, 400),
    ("PATCH", "/api/sets/web", {"capacity": 4}, 400),
    ("PATCH", "/api/sets/none", {}, 404),
    ("DELETE", "/api/sets/none", None, 404),
    ("GET", "/api/sets/none", None, 404),
    ("GET", "/api/events/20F7A0FF-0000-0000-0000-000000000000/explain", None, 404),
    ("GET", "/api/operations/o", None, 404),
    ("GET", "/api/operations/o/explain", None, 404),
    ("GET", "/api/machines/v/explain", None, 404),
    ("DELETE", "/api/webhooks/none", None, 404),
]


@pytest.mark.spec("C4", "E7", "M21", "O5", "T1")
@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [*(("POST", target, *row) for target, rows in POSTS.items() for row in rows), *OTHERS],
)
def test_a_refused_request_changes_nothing(
    console: ConsoleHarness, method: str, target: str, body: object, status: int
) -> None:
    """It gets a status and an error code."""
    before = unchanged(console)
    reply = console.api(method, target, body)
    assert reply.status == status
    assert reply.error_code not in {"BadFleetFile", "Changed"}
    assert unchanged(console) == before


@pytest.mark.parametrize(
    "body",
    [
        *(b"[]", b"null", b'"x"', b"{", b"\xff", b'{"name":}', b"[" * 60_000, b'{"a":1} x'),
        *(b"{}" * 2, b'{"name":"' + b"a" * 66_000),
    ],
)
def test_bodies_that_are_not_objects(console: ConsoleHarness, body: bytes) -> None:
    """A body that is not a JSON object, or too large, is refused."""
    for target in ("/api/machines", "/api/clock", "/api/faults", "/api/rollouts"):
        assert console.api("POST", target, body).error_code == "BadBody"


TOKENS: list[tuple[dict[str, object], str]] = [
    ({"role": "owner"}, "operator, tenant, reader"),
    ({"use": "page"}, "api or login"),
    ({"use": "arm"}, "api or login"),
    ({"seconds": 0}, "from 1 to"),
    ({"name": ""}, "name must be an id of 1 to 250"),
    ({"name": " sp"}, "name must be an id of 1 to 250"),
    ({"name": "n\0ul"}, "name must be an id of 1 to 250"),
    ({"name": "   "}, "name must be an id of 1 to 250"),
    ({"group": "x" * 8192}, "name and group are too long"),
]


@pytest.mark.spec("C7")
@pytest.mark.parametrize(("settings", "allowed"), TOKENS)
def test_what_a_token_may_be(
    console: ConsoleHarness, settings: dict[str, object], allowed: str
) -> None:
    """The error lists what is allowed."""
    reply = console.api("POST", "/api/tokens", {"name": "ann", "role": "reader", **settings})
    assert reply.status == 400
    assert allowed in reply.error_message


# --- Queries of the API and of the page -----------------------------------------------------------

WHOLE = "must be a whole number from"
STATUSES = "status must be one of "
FILTERS = (
    *("scope=vm", "q=vm", "about=vm", "actor=vm", "type=Ended"),
    *("since=2026-11-15T10:00:00Z", "until=2026-11-15T10:00:00Z"),
)
QUERIES = [
    *((f"/api/machines?limit={limit}", WHOLE) for limit in ("0", "1001", "x", "-1", "1.0")),
    ("/api/machines?after=x", WHOLE),
    ("/api/machines?power=on", "power must be one of running, stopped, deallocated, not 'on'"),
    ("/api/machines?type=Boom", "type must be one of Freeze, Reboot, Redeploy"),
    ("/api/machines?not_polled=yes", "not_polled must be true or false"),
    ("/api/events?status=Done", f"{STATUSES}Scheduled, Started, Over"),
    ("/api/events?since=tomorrow", "is not a date"),
    ("/api/events?within=-5", "within must be a whole number of seconds"),
    ("/api/events?status=Over&after=x", "after must be `next` of the previous page"),
    ("/api/operations?status=Running", f"{STATUSES}InProgress, Succeeded"),
    ("/api/rollouts?status=x", f"{STATUSES}Running, Paused, Aborted, Done"),
    ("/api/tokens?after=x", "after must be"),
    ("/api/journal?after=-1", WHOLE),
    ("/api/journal?limit=0", WHOLE),
    ("/api/journal?limit=9999", WHOLE),
    ("/api/journal?newest=true&before=x", WHOLE),
    ("/api/journal?newest=true&type=Dance", "type must be one of ScopeCreated"),
    *((f"/api/journal?{words}", "needs newest=true") for words in FILTERS),
    *((f"/api/stream?after={number}", WHOLE) for number in ("x", "-1", "1e3", "9" * 19)),
    ("/machines?page=x", "page must be a whole number"),
    ("/machines?page=99999999", "page must be at most"),
    ("/machines?power=on", "power must be one of running"),
    ("/sets?size=7", "size must be one of 20, 50, 100"),
    ("/events?group=colour", "group must be one of rollout, set, type"),
    ("/events?type=Boom", "type must be one of Freeze"),
    ("/events?since=tomorrow", "is not a date"),
    ("/events/confirm?action=explode", "action must be one of approve, cancel"),
    ("/operations?status=Dance", f"{STATUSES}InProgress, Succeeded"),
    ("/journal?type=Dance", "type must be one of ScopeCreated"),
    ("/journal?since=yesterday", "'yesterday' is not a date: write '2016-09-19T18:29:47Z'"),
    ("/journal?until=12", "is not a date"),
    ("/journal?since=2026-01-02&until=2026-01-01", "since must not be later than until"),
    ("/timeline?from=2026-01-09T12:00:00Z", "from and to belong together"),
    ("/timeline?from=2026-01-09T12:00:00Z&to=2026-01-09T12:00:10Z", "a minute to 31 days after"),
    ("/timeline?from=2026-01-09T12:00:00Z&to=2027-01-09T12:00:00Z", "a minute to 31 days after"),
    ("/timeline?from=x&to=y", "is not a date"),
    ("/timeline?type=Boom", "type must be one of Freeze"),
]


@pytest.mark.spec("O8", "O14")
@pytest.mark.parametrize(("path", "message"), QUERIES)
def test_a_wrong_query_is_refused(console: ConsoleHarness, path: str, message: str) -> None:
    """The error says what is allowed."""
    reply = Browser(console).get(path)
    assert reply.status == 400
    assert message in unescape(reply.text)
    if path.startswith("/api"):
        assert reply.error_code in {"BadQuery", "BadDate"}


# --- Forms of the page ----------------------------------------------------------------------------

FORMS: dict[str, list[tuple[list[tuple[str, str]], str]]] = {
    "/clock": [
        ([("minutes", "many")], "must be a number"),
        ([("minutes", "nan")], "must be a number"),
        ([("minutes", "1e300")], "must be a number"),
        ([("minutes", "-1")], "advance by 0 to"),
        ([], "how many minutes"),
    ],
    "/sets/web/scale": [
        ([("capacity", "2.5")], "whole number"),
        ([("capacity", "")], "how many instances"),
    ],
    "/sets/web/notice": [([("notify", "on"), ("delay", "16")], "'PT5M' to 'PT15M'")],
    "/sets/web/instances": [
        ([("action", "restart")], "select at least one instance"),
        ([("action", "dance"), ("instance", "0")], "there is no action"),
        ([("action", "restart"), ("instance", "x")], "whole number"),
        ([("action", "delete")], "select at least one instance"),
        ([("action", "delete"), ("instance", "7")], "7"),
        ([("action", "delete"), ("instance", "x")], "whole number"),
    ],
    "/sets/nothing/delete": [([], "there is no scale set 'nothing'")],
    "/machines/vm/dance": [([], "there is no action")],
    "/machines/vm/freeze": [([("duration_seconds", "soon")], "must be a number")],
    "/machines/nobody/delete": [([], "there is no machine 'nobody'")],
    "/events/NONE/approve": [([], "the journal has no event")],
    "/faults": [([("kind", "dance")], "kind must be one of")],
    "/webhooks": [
        ([("name", ""), ("url", "http://127.0.0.1/")], "name must be 1 to"),
        ([("name", "pager"), ("url", "http://10.255.255.1/")], "10.255.255.1"),
    ],
    "/new/rollout": [
        ([("sets", "nobody")], "there is no scale set"),
        ([("id", "running")], "a rollout 'running' exists already"),
        ([("id", "a/b")], "must be"),
        ([("scopes", "vm nowhere")], "there is no scope 'nowhere'"),
        ([("scopes", "vm " * 12_000 + "web/0")], "too much to be confirmed"),
    ],
    "/rollouts/none/pause": [([], "no rollout")],
    "/rollouts/none/abort": [([], "there is no rollout 'none'")],
}


@pytest.mark.spec("O8", "O14")
@pytest.mark.parametrize(
    ("path", "fields", "error"), [(path, *row) for path, rows in FORMS.items() for row in rows]
)
def test_a_refused_form_changes_nothing(
    console: ConsoleHarness, path: str, fields: list[tuple[str, str]], error: str
) -> None:
    """Neither does it ask first; the error is shown beside the form, or sent to page.js."""
    before = unchanged(console)
    browser, body = Browser(console), urlencode(fields).encode()
    plain = browser.post_raw(path, body)
    assert 400 <= plain.status < 500
    assert error in unescape(plain.text)
    assert error in browser.post_raw(path, body, JAVASCRIPT).json["error"]
    assert unchanged(console) == before
