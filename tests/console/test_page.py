"""The page as the server makes it; tests/real/test_page.py looks at it in a browser."""

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import quote, urlencode

import msgspec
import pytest

from fairwarning.console.access import COOKIE
from fairwarning.console.api.machines import ACTIONS
from fairwarning.console.api.responses import EventHistoryInfo
from fairwarning.console.page import forms, words
from fairwarning.console.page.timeline import ROWS, WINDOWS, chart
from fairwarning.core.times import iso
from fairwarning.service.tokens import Role
from tests.fixtures.console import HOST, ConsoleHarness
from tests.fixtures.fleet import NOON
from tests.fixtures.http import Response

FORM = "application/x-www-form-urlencoded"
EVIL = "\"><script>alert(1)</script><img src=x onerror='alert(1)'>"
NOTICE = re.compile(r'aria-live="polite">(?:<p>(.*?)</p>)?</div>', re.DOTALL)


class Browser:
    """Somebody who looks at the page of a console, without a script unless it says so."""

    def __init__(self, console: ConsoleHarness, role: Role = Role.OPERATOR) -> None:
        self._console = console
        self.cookies = {COOKIE: console.token_of(role)}

    def get(self, target: str, *more: tuple[str, str]) -> Response:
        """A page."""
        return self._ask("GET", target, b"", *more)

    def text(self, target: str) -> str:
        """A page that must be there."""
        reply = self.get(target)
        assert reply.status == 200, reply.body
        return reply.body.decode()

    def post(self, target: str, *more: tuple[str, str], **fields: str) -> Response:
        """A form."""
        return self.post_raw(target, urlencode(fields).encode(), *more)

    def post_raw(self, target: str, body: bytes, *more: tuple[str, str]) -> Response:
        """The same, to the byte."""
        kind = () if any(name == "Content-Type" for name, _ in more) else (("Content-Type", FORM),)
        reply = self._ask("POST", target, body, ("Origin", f"http://{HOST}"), *kind, *more)
        self._console.settle()
        return reply

    def _ask(self, method: str, target: str, body: bytes, *more: tuple[str, str]) -> Response:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        reply = self._console.send(
            method, target, [("Host", HOST), ("Cookie", cookies), *more], body
        )
        for name, value in re.findall(r"^(\w+)=([^;]*)", reply.headers.get("set-cookie", "")):
            self.cookies[name] = value.strip('"')
        return reply


@pytest.fixture
def console() -> Iterator[ConsoleHarness]:
    """A small fleet: a set that is polled, a machine that nobody polls."""
    with ConsoleHarness() as harness:
        harness.created("sets", name="web", capacity=3, terminate_notice="PT5M")
        harness.created("machines", name="vm", priority="Spot", tags={"note": EVIL})
        harness.poll("web_0")
        yield harness


PATHS = (
    "/",
    "/machines/vm",
    "/machines/web_1",
    "/machines/new",
    "/sets/web",
    "/sets/new",
    "/rollouts",
    "/rollouts/new",
    "/journal",
    "/faults",
    "/login",
    "/machines/nobody",
)


@pytest.mark.spec("O8")
@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_inline_and_nothing_comes_from_elsewhere(
    console: ConsoleHarness, path: str
) -> None:
    """The policy forbids it, and no page tries; what somebody wrote is shown as it was written."""
    reply = Browser(console).get(path)
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    text = reply.body.decode()
    assert not re.search(
        r"<style|<[^>]*\s(?:style|on\w+)=|<script(?! src=\"/static/page.js\")", text
    )
    assert not re.search(r"(?:src|href|action)=\"(?![/?#])", text)
    if path == "/machines/vm":
        assert EVIL in unescape(text)


@pytest.mark.spec("O8")
def test_a_notice_is_shown_as_text_and_once(console: ConsoleHarness) -> None:
    """Whatever a cookie says; and a script that only looks for what is new leaves it there."""
    browser = Browser(console)
    browser.cookies["fairwarning_notice"] = quote(EVIL)
    assert "<script>alert" not in browser.get("/", ("X-Page", "/")).body.decode()
    found = NOTICE.search(browser.text("/"))
    assert found is not None
    assert unescape(found[1]) == EVIL
    found = NOTICE.search(browser.text("/"))
    assert found is not None
    assert not found[1]


@pytest.mark.spec("O8")
def test_a_big_fleet_is_shown_page_by_page(console: ConsoleHarness) -> None:
    """Twenty scopes at a time, whatever there are; a filter finds one by a part of its name."""
    console.created("machines", name="many", count=130)
    browser = Browser(console)
    seen: list[str] = []
    target: str | None = "/"
    while target:
        text = browser.text(target)
        names = re.findall(r'<span class="name">(.*?)</span>', text)
        assert len(names) <= 20 + 2  # the set's three are one scope
        seen += names
        following = re.search(r'href="([^"]*after=[^"]*)">Next machines', text)
        target = unescape(following[1]) if following else None
    assert sorted(seen) == sorted([*(f"many_{n}" for n in range(130)), "vm", *WEB])
    assert re.findall(r'<span class="name">(.*?)</span>', browser.text("/?q=NY_12")) == [
        "many_12", *(f"many_{n}" for n in range(120, 130)),
    ]  # fmt: skip
    assert "No machine, set or scope has" in browser.text(f"/?q={quote(EVIL)}")


WEB = ("web_0", "web_1", "web_2")


@pytest.mark.spec("O8")
@pytest.mark.parametrize("name", ["a?b #c", "100%2F", "d'e\"<f>", "ü & ö", "x;y=z"])
def test_whatever_a_thing_is_called_its_page_and_forms_work(name: str) -> None:
    """Names may hold anything printable: links lead there, forms act on it, errors come back."""
    with ConsoleHarness() as console:
        console.created("sets", name=name, capacity=1)
        console.created("machines", name=f"{name}!")
        browser = Browser(console)
        links = {
            unescape(one)
            for one in re.findall(r'href="(/(?:sets|machines)/[^"]+)"', browser.text("/"))
        }
        links -= {"/sets/new", "/machines/new"}
        assert len(links) == 3
        for link in links:
            text = browser.text(link)
            assert name in unescape(text)
            actions = {unescape(one) for one in re.findall(r'action="([^"]+)"', text)}
            wanted = [one for one in actions if one.endswith(("/scale", "/freeze"))]
            for action in wanted:
                said = browser.post(action, capacity="many", duration_seconds="many")
                assert said.status == 400
                beside = re.search(r'role="alert">[^<]*must be a number', said.body.decode())
                assert beside is not None
        (at,) = (one for one in links if one.startswith("/sets/"))
        done = browser.post(f"{at}/scale", ("X-Page", at), capacity="2")
        assert done.json["to"] == at
        assert "fairwarning_notice" not in browser.cookies  # it is said where it was asked


@pytest.mark.spec("O8")
@pytest.mark.parametrize("machine", ["vm", "web_1"])
@pytest.mark.parametrize("before", ["", "restart", "stop"])
@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_what_is_said_first_is_what_happens(machine: str, before: str, action: str) -> None:
    """Each operation, on a polled machine and on another, in each state, does what was foreseen."""
    with ConsoleHarness() as console:
        console.created("sets", name="web", capacity=2, terminate_notice="PT5M")
        console.created("machines", name="vm", priority="Spot")
        console.poll("web_0")
        if before:
            console.act(machine, before)
        browser = Browser(console)
        text = browser.text(f"/machines/{machine}")
        at = next(one for one in re.findall(r'action="([^"]+)"', text) if one.endswith(action))
        deed = re.search(rf'action="{at}".*?</form>', text, re.DOTALL)
        assert deed is not None
        reply = browser.post(at, ("X-Page", "/"), key="once")
        if "disabled" in deed[0]:
            assert "Not now:" in deed[0]
            assert reply.status in {400, 409}
            assert reply.json["error"] in unescape(deed[0])
            return
        assert reply.status == 200, reply.body
        events = [
            one for one in console.ok("GET", "/api/events")["events"] if one["operation"] == "once"
        ]
        for event in events:
            assert f"{event['type']} with" in deed[0] or "without notice" in deed[0]
        assert bool(events) == (" notice: " in deed[0])
        if not events:
            assert "At once" in deed[0] or "Nothing: nobody polls" in deed[0]


@pytest.mark.spec("O8")
def test_a_form_sent_twice_has_one_effect(console: ConsoleHarness) -> None:
    """It has a key of its own; the page after it says what was done."""
    browser = Browser(console)
    for _ in range(2):
        reply = browser.post("/machines/web_1/restart", key="once")
        assert reply.status == 303
        assert reply.headers["location"] == "/machines/web/0/web_1"
    assert "Reboot is announced for web_1" in browser.text("/machines/web_1")
    assert len(console.ok("GET", "/api/events")["events"]) == 1


@pytest.mark.spec("O8", "T8")
def test_a_refused_form_comes_back_with_what_stood_in_it(console: ConsoleHarness) -> None:
    """Beside it stands why; a script is told the same."""
    browser = Browser(console)
    given = {"name": "shop", "capacity": "2", "notify": "on", "delay": "4"}
    reply = browser.post("/sets/new", **given)
    text = unescape(reply.body.decode())
    assert reply.status == 400
    assert "must be a duration from 'PT5M' to 'PT15M'" in text
    assert 'name="name" required autocomplete="off" value="shop"' in text
    assert 'value="on" checked' in text
    told = browser.post("/sets/new", ("X-Page", "/sets/new"), **given)
    assert told.status == 400
    assert told.json["error"] in text
    assert console.api("GET", "/api/sets/shop").status == 404
    done = browser.post("/sets/new", ("X-Page", "/sets/new"), **given | {"delay": "15"})
    assert done.json["to"] == "/sets/shop"
    assert console.ok("GET", "/api/sets/shop")["terminate_notice"] == "PT15M"


@pytest.mark.parametrize(
    ("target", "fields", "said"),
    [
        ("/clock", {"minutes": "many"}, "must be a number"),
        ("/clock", {"minutes": "nan"}, "must be a number"),
        ("/clock", {"minutes": "1e300"}, "must be a number"),
        ("/clock", {"minutes": "-1"}, "advance by 0 to"),
        ("/clock", {}, "how many minutes"),
        ("/sets/web/scale", {"capacity": "2.5"}, "whole number"),
        ("/sets/web/scale", {"capacity": ""}, "how many instances"),
        ("/sets/web/notice", {"notify": "on", "delay": "16"}, "'PT5M' to 'PT15M'"),
        ("/sets/web/instances", {"action": "restart"}, "tick the instances"),
        ("/sets/web/instances", {"action": "dance", "instance": "0"}, "there is no action"),
        ("/sets/web/instances", {"action": "restart", "instance": "x"}, "whole number"),
        ("/machines/vm/dance", {}, "there is no action"),
        ("/machines/vm/freeze", {"duration_seconds": "soon"}, "must be a number"),
        ("/events/NONE/approve", {}, "the journal has no event"),
        ("/faults", {"kind": "dance"}, "kind must be one of"),
        ("/rollouts/new", {"sets": "nobody"}, "there is no scale set"),
        ("/rollouts/none/pause", {}, "no rollout"),
    ],
)
def test_bad_input_is_told_and_changes_nothing(
    console: ConsoleHarness, target: str, fields: dict[str, str], said: str
) -> None:
    """With and without a script, in words that say what is allowed."""
    before = console.whole()
    browser = Browser(console)
    plain = browser.post(target, **fields)
    assert 400 <= plain.status < 500
    assert said in unescape(plain.body.decode())
    assert said in browser.post(target, ("X-Page", "/"), **fields).json["error"]
    assert console.whole() == before


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
def test_a_body_that_is_no_form_is_refused(console: ConsoleHarness, body: bytes, kind: str) -> None:
    """Other kinds, other letters, too many fields, too many bytes."""
    assert Browser(console).post_raw("/clock", body, ("Content-Type", kind)).status == 400


@pytest.mark.parametrize("back", ["//evil.example/", "/\\evil.example", "https://evil.example", ""])
def test_a_redirect_never_leads_away(console: ConsoleHarness, back: str) -> None:
    """Wherever a form says it came from."""
    reply = Browser(console).post("/clock", advance="60", back=back)
    assert reply.headers["location"] == "/"
    assert forms.inside("/sets/web?capacity=2") == "/sets/web?capacity=2"


@pytest.mark.spec("O8")
def test_a_reader_may_look_and_nothing_else(console: ConsoleHarness) -> None:
    """No form but the filter and the way out; what is sent anyhow is refused."""
    browser = Browser(console, Role.READER)
    for path in ("/", "/machines/vm", "/sets/web", "/faults", "/rollouts"):
        actions = set(
            re.findall(r'<form[^>]*method="post"[^>]*action="([^"]*)"', browser.text(path))
        )
        assert actions <= {"/logout", "/sets/web/instances"}
    before = console.whole()
    assert browser.post("/machines/web_1/restart").status == 403
    assert browser.post("/clock", advance="60").status == 403
    assert console.whole() == before


def test_who_is_not_logged_in_is_led_to_the_login(console: ConsoleHarness) -> None:
    """A script is told so instead."""
    browser = Browser(console)
    browser.cookies.clear()
    assert browser.get("/").headers["location"] == "/login"
    assert browser.get("/", ("X-Page", "/")).status == 401


def test_the_files_are_ours_and_few() -> None:
    """Three of them, one script of under two hundred lines; no other file is given out."""
    with ConsoleHarness() as console:
        browser = Browser(console)
        for name, kind in (("page.css", "css"), ("page.js", "javascript"), ("icon.svg", "svg+xml")):
            assert kind in browser.get(f"/static/{name}").headers["content-type"]
        assert len(browser.text("/static/page.js").splitlines()) < 200
        assert browser.get("/static/page.py").status == 404
        assert browser.get("/static/..%2Fpage.py").status == 404


# --- The timeline ---------------------------------------------------------------------------------


def moment(created: float, due: float | None, **more: object) -> EventHistoryInfo:
    """An event, its times in minutes from now."""
    times = {
        name: at(more.pop(name)) if name in more else None
        for name in ("approved_at", "started_at", "ended_at")
    }
    given = {
        "id": "E",
        "type": "Reboot",
        "status": "Scheduled",
        "source": "User",
        "scope": "s",
        "resources": ["vm"],
        "created_at": at(created),
        "not_before": None if due is None else at(due),
        "operation": "o",
        "impact": "reboot",
        "duration_seconds": -1,
        "description": "",
        "approved_by": "",
        "awaits": [],
        "cancelled": False,
    }
    return msgspec.convert(given | times | more, EventHistoryInfo)


def at(minutes: object) -> str:
    """So many minutes from noon."""
    assert isinstance(minutes, int | float)
    return iso(int(NOON + minutes * 60))


NOW = at(0)


@pytest.mark.spec("O8")
def test_a_bar_is_where_its_time_is() -> None:
    """In an hour's window now is in the middle; notice, approval, start and end stand by time."""
    (row,) = chart([moment(-15, 15, approved_at=-3, started_at=-3)], NOW, 3600).rows
    assert (row.notice and (row.notice.x, row.notice.width)) == ("25.00%", "20.00%")
    assert (row.impact and (row.impact.x, row.impact.width)) == ("45.00%", "5.00%")
    assert row.approved == "45.00%"
    assert row.state == "under way"
    (row,) = chart([moment(-15, 15)], NOW, 3600).rows
    assert (row.notice and (row.notice.x, row.notice.width)) == ("25.00%", "50.00%")
    assert (row.not_before, row.impact, row.state) == ("75.00%", None, "coming")
    (row,) = chart([moment(-60, 7 * 24 * 60)], NOW, 3600).rows  # runs off on both sides
    assert (row.notice and (row.notice.x, row.notice.width)) == ("0.00%", "100.00%")
    assert row.not_before is None


@pytest.mark.spec("O8")
def test_rows_come_in_order_and_what_is_out_of_sight_has_none() -> None:
    """What comes first is first, then what is over; a cancelled one is seen, however short."""
    seen = chart(
        [
            moment(-20, -5, id="over", started_at=-10, ended_at=-9),
            moment(0, 15, id="cancelled", ended_at=0, cancelled=True),
            moment(-5, 10, id="later"),
            moment(-1, 4, id="sooner"),
            moment(-1, None, id="sudden", started_at=-1, status="Started"),
            moment(-300, -285, id="long ago", started_at=-285, ended_at=-280),
        ],
        NOW,
        3600,
    )
    assert [row.event.id for row in seen.rows] == ["sudden", "sooner", "later", "cancelled", "over"]
    assert [row.state for row in seen.rows][-2:] == ["cancelled", "over"]
    assert seen.rows[0].notice is None
    assert "cancelled 12:00:00" in seen.rows[3].title


@pytest.mark.parametrize("seconds", WINDOWS)
def test_the_axis_has_few_marks_in_every_window(seconds: int) -> None:
    """Enough to read the time by, few enough for a phone; rows are bounded."""
    seen = chart([moment(-1, 4, id=str(n)) for n in range(100)], NOW, seconds)
    assert 4 <= len(seen.ticks) <= 7
    assert (len(seen.rows), seen.more) == (ROWS, 100 - ROWS)
    assert seen.now_x == "50.00%"


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
def test_times_are_said_shortly(seconds: int, left: str, long: str) -> None:
    """A countdown as a clock has it, a span in at most two units."""
    assert words.countdown(iso(int(NOON) + seconds), NOW) == left
    assert words.span(seconds) == long
