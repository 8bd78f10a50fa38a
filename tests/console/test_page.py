"""The page as the server renders it; tests/real/test_page.py tests it in a browser."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from fairwarning.console.access import COOKIE
from fairwarning.console.api.machines import ACTIONS
from fairwarning.console.page import words
from fairwarning.console.page.density import Span
from fairwarning.console.page.request import local_path
from fairwarning.console.page.timeline import WINDOWS, chart, span_of, window
from fairwarning.core.decision import FactType
from fairwarning.core.model import EventType
from fairwarning.core.times import iso
from fairwarning.service.history.events import EventHistory
from fairwarning.service.tokens import Role, TokenUse
from tests.campaigns import split
from tests.fixtures.console import HOST, ConsoleHarness
from tests.fixtures.fleet import NOON
from tests.fixtures.http import Response

pytestmark = pytest.mark.spec("O8")

FORM = "application/x-www-form-urlencoded"
EVIL = "\"><script>alert(1)</script><img src=x onerror='alert(1)'>"
NOTICE = re.compile(r'aria-live="polite">(?:<p>(.*?)</p>)?</div>', re.DOTALL)


class Browser:
    """A browser without JavaScript; an X-Page header makes a request look like page.js."""

    def __init__(self, console: ConsoleHarness, role: Role = Role.OPERATOR) -> None:
        self._console = console
        self.cookies = {COOKIE: console.token_of(role, use=TokenUse.PAGE)}

    def get(self, target: str, *headers: tuple[str, str]) -> Response:
        """Request a page."""
        return self._send("GET", target, b"", *headers)

    def text(self, target: str) -> str:
        """Return the text of a page that must exist."""
        reply = self.get(target)
        assert reply.status == 200, reply.body
        return reply.body.decode()

    def post(self, target: str, *headers: tuple[str, str], **fields: str) -> Response:
        """Submit a form."""
        return self.post_raw(target, urlencode(fields).encode(), *headers)

    def post_raw(self, target: str, body: bytes, *headers: tuple[str, str]) -> Response:
        """Submit a form with this exact body."""
        kind = (
            () if any(name == "Content-Type" for name, _ in headers) else (("Content-Type", FORM),)
        )
        reply = self._send("POST", target, body, ("Origin", f"http://{HOST}"), *kind, *headers)
        self._console.settle()
        return reply

    def _send(self, method: str, target: str, body: bytes, *headers: tuple[str, str]) -> Response:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        reply = self._console.send(
            method, target, [("Host", HOST), ("Cookie", cookies), *headers], body
        )
        for name, value in re.findall(r"^(\w+)=([^;]*)", reply.headers.get("set-cookie", "")):
            self.cookies[name] = value.strip('"')
        return reply


@pytest.fixture
def console() -> Iterator[ConsoleHarness]:
    """A small fleet: a scale set that polls, and a machine that does not."""
    with ConsoleHarness() as harness:
        harness.created("sets", name="web", capacity=3, terminate_notice="PT5M")
        harness.created("machines", name="vm", priority="Spot", tags={"note": EVIL})
        harness.poll("web_0")
        yield harness


PATHS = (
    "/",
    "/machines",
    "/map",
    "/map?view=table",
    "/map/machine?group=standalone",
    "/timeline",
    "/timeline?from=2026-01-09T11:00&to=2026-01-09T13:00&set=web",
    "/events",
    "/events?group=type",
    "/events/confirm?action=cancel",
    "/machines/vm",
    "/machines/web_1",
    "/new/machine",
    "/sets/web",
    "/new/set",
    "/rollouts",
    "/new/rollout",
    "/confirm/new/rollout",
    "/confirm/machines/vm/delete",
    "/journal",
    "/journal?q=vm&type=Ended",
    "/operations",
    "/webhooks",
    "/faults",
    "/help",
    "/login",
    "/machines/nobody",
)


@pytest.mark.parametrize("path", PATHS)
def test_pages_have_no_inline_code_and_no_external_resources(
    console: ConsoleHarness, path: str
) -> None:
    """The content security policy forbids both; user input is escaped."""
    reply = Browser(console).get(path)
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    text = reply.body.decode()
    assert not re.search(
        r"<style|<[^>]*\s(?:style|on\w+)=|<script(?! src=\"/static/\w+.js\")", text
    )
    assert not re.search(r"(?:src|href|action)=\"(?![/?#])", text)
    if path == "/machines/vm":
        assert EVIL in unescape(text)


@pytest.mark.parametrize("path", ["/machines/web_1", "/map", "/timeline?set=web"])
def test_breadcrumbs_have_one_form(console: ConsoleHarness, path: str) -> None:
    """The fleet, then what is in it."""
    text = Browser(console).text(path)
    fleet = '<nav class="breadcrumbs" aria-label="Breadcrumb"><a href="/">Fleet</a> \u203a '
    assert text.count(fleet) == text.count("breadcrumbs") == 1


def test_a_notice_is_escaped_and_shown_once(console: ConsoleHarness) -> None:
    """A refresh by page.js does not consume it."""
    browser = Browser(console)
    browser.cookies["fairwarning_notice"] = quote(EVIL)
    assert "<script>alert" not in browser.get("/", ("X-Page", "/")).body.decode()
    match = NOTICE.search(browser.text("/"))
    assert match is not None
    assert unescape(match[1]) == EVIL
    match = NOTICE.search(browser.text("/"))
    assert match is not None
    assert not match[1]


def test_the_first_page_stays_small(console: ConsoleHarness) -> None:
    """It shows the first machines and how many more there are; a filter matches parts of names."""
    console.created("machines", name="many", count=130)
    browser = Browser(console)
    text = browser.text("/")
    assert len(re.findall(r'<span class="name">', text)) == 15
    assert re.search(r'href="/machines">119 more machines', text)
    assert re.findall(r'<span class="name">(.*?)</span>', browser.text("/?q=NY_12")) == [
        "many_12", *(f"many_{n}" for n in range(120, 130)),
    ]  # fmt: skip
    assert "No machine or scope matches" in browser.text(f"/?q={quote(EVIL)}")


@pytest.mark.parametrize("name", ["a?b#c", "100%2F", "d'e\"<f>", "ü&ö", "x;y=z"])
def test_pages_and_forms_work_for_any_name(name: str) -> None:
    """Names may contain any printable character: links, forms and errors still work."""
    with ConsoleHarness() as console:
        console.created("sets", name=name, capacity=1)
        console.created("machines", name=f"{name}!")
        browser = Browser(console)
        links = {
            unescape(href)
            for href in re.findall(r'href="(/(?:sets|machines)/[^"]+)"', browser.text("/"))
        }
        links -= {"/new/set", "/new/machine"}
        assert len(links) == 3
        for link in links:
            text = browser.text(link)
            assert name in unescape(text)
            actions = {unescape(action) for action in re.findall(r'action="([^"]+)"', text)}
            for action in actions:
                if not action.endswith(("/scale", "/freeze")):
                    continue
                reply = browser.post(action, capacity="many", duration_seconds="many")
                assert reply.status == 400
                error = re.search(r'role="alert">[^<]*must be a number', reply.body.decode())
                assert error is not None
        (at,) = (link for link in links if link.startswith("/sets/"))
        assert f'href="{at}?size=50"' in unescape(browser.text(at))
        done = browser.post(f"{at}/scale", ("X-Page", at), capacity="2")
        assert done.json["to"] == at
        assert "fairwarning_notice" not in browser.cookies  # page.js shows the notice


@pytest.mark.parametrize("machine", ["vm", "web_1"])
@pytest.mark.parametrize("before", split(["", "restart", "stop"], 1))
@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_a_preview_is_what_happens(
    console: ConsoleHarness, machine: str, before: str, action: str
) -> None:
    """Each action has the previewed effect, on a polled and an unpolled machine, in each state."""
    if before:
        console.act(machine, before)
    browser = Browser(console)
    text = browser.text(f"/machines/{machine}")
    scope = console.ok("GET", f"/api/machines/{machine}")["scope"]
    at = f"/machines/{scope}/{machine}/{action}"
    form = re.search(rf'action="{at}".*?</form>', text, re.DOTALL)
    reply = browser.post(at, ("X-Page", "/"), key="once", confirmed="yes")
    if form is None:
        refused = re.search(r"Not possible now</h3>.*?</ul>", text, re.DOTALL)
        assert refused is not None
        assert reply.status in {400, 409}
        assert reply.json["error"] in unescape(refused[0])
        return
    assert reply.status == 200, reply.body
    events = [
        event
        for event in console.ok("GET", "/api/events")["events"]
        if event["operation"] == "once"
    ]
    for event in events:
        assert f"{event['type']} event with" in form[0]
    assert bool(events) == (" notice. " in form[0])
    if not events:
        assert "immediately" in form[0] or "No effect: no machine in its scope" in form[0]


@pytest.mark.spec("T8")
def test_a_refused_form_keeps_its_fields(console: ConsoleHarness) -> None:
    """The error is shown beside the form; page.js gets the same error as JSON."""
    browser = Browser(console)
    fields = {"name": "shop", "capacity": "2", "notify": "on", "delay": "4"}
    reply = browser.post("/new/set", **fields)
    text = unescape(reply.body.decode())
    assert reply.status == 400
    assert "must be a duration from 'PT5M' to 'PT15M'" in text
    assert 'name="name" required autocomplete="off" value="shop"' in text
    assert 'value="on" checked' in text
    refused = browser.post("/new/set", ("X-Page", "/new/set"), **fields)
    assert refused.status == 400
    assert refused.json["error"] in text
    assert console.api("GET", "/api/sets/shop").status == 404
    done = browser.post("/new/set", ("X-Page", "/new/set"), **fields | {"delay": "15"})
    assert done.json["to"] == "/sets/shop"
    assert console.ok("GET", "/api/sets/shop")["terminate_notice"] == "PT15M"


@pytest.mark.spec("T8")
def test_the_notice_of_an_existing_set(console: ConsoleHarness) -> None:
    """Azure's portal cannot change it; the page can."""
    assert Browser(console).post("/sets/web/notice", notify="on", delay="10").status == 303
    assert console.ok("GET", "/api/sets/web")["terminate_notice"] == "PT10M"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"minutes=1", "text/plain"),
        (b"minutes=1", "multipart/form-data; boundary=x"),
        (b"minutes=%ff", FORM),
        (b"\xff=1", FORM),
        (b"a=1&" * 3000, FORM),
        (b"minutes=" + b"1" * 70_000, FORM),
    ],
)
def test_malformed_forms_are_refused(console: ConsoleHarness, body: bytes, kind: str) -> None:
    """Wrong media types, invalid UTF-8, too many fields, too many bytes."""
    assert Browser(console).post_raw("/clock", body, ("Content-Type", kind)).status == 400


@pytest.mark.parametrize("back", ["//evil.example/", "/\\evil.example", "https://evil.example", ""])
def test_redirects_stay_on_the_site(console: ConsoleHarness, back: str) -> None:
    """A foreign `back` path is replaced by the start page."""
    reply = Browser(console).post("/clock", advance="60", back=back)
    assert reply.headers["location"] == "/"
    assert local_path("/sets/web?capacity=2") == "/sets/web?capacity=2"


def test_only_the_known_static_files_are_served(console: ConsoleHarness) -> None:
    """There are five, and the scripts are short."""
    browser = Browser(console)
    for name, kind in (
        ("page.css", "css"),
        ("page.js", "javascript"),
        ("map.js", "javascript"),
        ("timeline.js", "javascript"),
        ("icon.svg", "svg+xml"),
    ):
        assert kind in browser.get(f"/static/{name}").headers["content-type"]
    assert len(browser.text("/static/page.js").splitlines()) < 240
    assert browser.get("/static/page.py").status == 404


# --- The timeline ---------------------------------------------------------------------------------


def span(created: float, due: float | None, name: str = "E", **minutes: float) -> Span:
    """Return an event; its times are minutes from now."""
    times: dict[str, Any] = {key: NOON + 60 * value for key, value in minutes.items()}
    cancelled = FactType.CANCELLED if name == "cancelled" else None
    history = EventHistory(
        id=name,
        scope="s",
        type=EventType.REBOOT,
        resources=("vm",),
        created_at=NOON + 60 * created,
        not_before=None if due is None else int(NOON + 60 * due),
        ended=cancelled,
        **times,
    )
    return span_of(history, None, "s", NOON)


NOW = iso(int(NOON))
ROWS = 40


def test_bars_are_positioned_by_time() -> None:
    """Now is the middle of the window; notice, approval, start and end follow from it."""
    scale = window(int(NOON), 3600)
    (row,) = chart([span(-15, 15, approved_at=-3, started_at=-3)], scale, rows=ROWS).rows
    assert (row.notice and (row.notice.x, row.notice.width)) == ("25.00%", "20.00%")
    assert (row.impact and (row.impact.x, row.impact.width)) == ("45.00%", "5.00%")
    assert row.approved == "45.00%"
    assert row.state == "in progress"
    (row,) = chart([span(-15, 15)], scale, rows=ROWS).rows
    assert (row.notice and (row.notice.x, row.notice.width)) == ("25.00%", "50.00%")
    assert (row.due, row.impact, row.state) == ("75.00%", None, "scheduled")
    (row,) = chart([span(-60, 7 * 24 * 60)], scale, rows=ROWS).rows  # beyond both sides
    assert (row.notice and (row.notice.x, row.notice.width)) == ("0.00%", "100.00%")
    assert row.due is None


def test_rows_are_sorted_and_only_in_the_window() -> None:
    """Live events come first, then ended ones; a cancelled event always has a bar."""
    timeline = chart(
        [
            span(-20, -5, "over", started_at=-10, ended_at=-9),
            span(0, 15, "cancelled", ended_at=0),
            span(-5, 10, "later"),
            span(-1, 4, "sooner"),
            span(-1, None, "sudden", started_at=-1),
            span(-300, -285, "long ago", started_at=-285, ended_at=-280),
        ],
        window(int(NOON), 3600),
        rows=ROWS,
    )
    names = ["sudden", "sooner", "later", "cancelled", "over"]
    assert [row.id for row in timeline.rows] == names
    assert [row.state for row in timeline.rows][-2:] == ["cancelled", "ended"]
    assert timeline.rows[0].notice is None
    assert timeline.rows[3].title == "Reboot of vm: created 12:00:00, cancelled 12:00:00"


@pytest.mark.parametrize("seconds", WINDOWS)
def test_the_axis_has_few_ticks_in_every_window(seconds: int) -> None:
    """The ticks fit a phone; the number of rows is bounded."""
    spans = [span(-1, 4, str(number)) for number in range(100)]
    timeline = chart(spans, window(int(NOON), seconds), rows=ROWS)
    assert 4 <= len(timeline.ticks) <= 7
    assert (len(timeline.rows), timeline.more) == (ROWS, 100 - ROWS)
    assert timeline.now_x == "50.00%"


@pytest.mark.parametrize(
    ("seconds", "left", "long"),
    [
        (0, "0:00", "0 s"),
        (59, "0:59", "59 s"),
        (872, "14:32", "14 min 32 s"),
        (3731, "1:02:11", "1 h 2 min"),
        (7 * 86400 - 3600, "6 d 23 h", "6 d 23 h"),
    ],
)
def test_times_are_formatted_briefly(seconds: int, left: str, long: str) -> None:
    """A countdown looks like a clock, a duration has at most two units."""
    assert words.countdown(iso(int(NOON) + seconds), NOW) == left
    assert words.duration(seconds) == long
