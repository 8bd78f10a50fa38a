"""Who may ask at all, on every route there is: nothing that is refused changes anything."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import pytest
from starlette.routing import Route

from fairwarning.console.access import COOKIE
from fairwarning.service.tokens import Principal, Role
from tests.fixtures.console import HOST, KEY, ConsoleHarness
from tests.fixtures.http import Headers, Response, fetch
from tests.fixtures.service import ServiceProcess

OPEN = {"/healthz", "/readyz", "/metrics", "/login", "/logout", "/static/page.css"}
"""What needs no token."""
PARTS = {
    "name": "vm", "id": "vm", "action": "restart", "set": "web", "scope": "vm", "machine": "vm",
    "event": "E",
}  # fmt: skip


class Ask(NamedTuple):
    """A request to a route."""

    method: str
    target: str
    body: bytes = b""

    @property
    def changes(self) -> bool:
        """Whether it is meant to."""
        return self.method not in {"GET", "HEAD"}

    @property
    def headers(self) -> list[tuple[str, str]]:
        """What belongs to its body."""
        form = [("Content-Type", "application/x-www-form-urlencoded")]
        return form if self.changes and not self.target.startswith("/api") else []


def routes(console: ConsoleHarness) -> list[Ask]:
    """Every route of the application, once for each method."""
    found = []
    for route in console.app.routes:
        assert isinstance(route, Route), f"{route} is not walked"
        path = re.sub(r"{(\w+)(:\w+)?}", lambda part: PARTS.get(part[1], "x"), route.path)
        path = path.replace("/static/vm", "/static/page.css")
        api = path.startswith("/api")
        body = b'{"name": "new", "advance": 60}' if api else urlencode({"advance": 60}).encode()
        found += [
            Ask(method, path, body if method not in {"GET", "HEAD"} else b"")
            for method in sorted(route.methods or {"GET"})
        ]
    assert len(found) > 100
    return found


def make_fleet(console: ConsoleHarness) -> None:
    """Something of everything, so that there is something to change."""
    console.created("machines", name="vm")
    console.created("sets", name="web", capacity=2, terminate_notice="PT5M")
    console.poll("vm", "web_0")
    console.act("vm", "freeze", key="op")
    console.ok("POST", "/api/rollouts", {"id": "vm", "sets": ["web"]})
    console.ok("POST", "/api/faults", {"kind": "500", "scope": "web/0"})
    console.tell()


def refused(reply: Response, status: int, code: str, console: ConsoleHarness) -> None:
    """As the contract says, and telling nothing that is not the asker's business."""
    assert (reply.status, reply.error_code) == (status, code)
    silent(reply, console)


def silent(reply: Response, console: ConsoleHarness) -> None:
    """No token, no path of this machine, no trace of the program."""
    text = reply.body.decode() + repr(sorted(reply.headers.items()))
    for secret in (
        console.token,
        KEY,
        "Traceback",
        'File "',
        str(Path.cwd()),
        "site-packages",
        "/root",
    ):
        assert secret not in text


def walk(console: ConsoleHarness, status: int, code: str, *headers: tuple[str, str]) -> None:
    """Every route refuses these headers so, and nothing is changed by it."""
    before = console.whole()
    for one in routes(console):
        reply = console.send(one.method, one.target, [*one.headers, *headers], one.body)
        refused(reply, status, code, console) if one.method != "HEAD" else None
        assert reply.status == status, one
    assert console.whole() == before


FORGED = [
    "evil.example", "evil.example:8170", "127.0.0.2:8170", "169.254.169.254", "[::1]:8170",
    "localhost.evil.example", "127.0.0.1.evil.example", "127.1", "2130706433", "0x7f.0.0.1",
    "0.0.0.0", "localhost\x00", "", ":8170", "[", "[::1",
]  # fmt: skip
TRICKS = [
    "evil.example@localhost", "evil.example@127.0.0.1:8170", "user:word@127.0.0.1", "@localhost",
    "localhost/evil.example", "localhost#evil.example", "localhost?evil.example",
    "127.0.0.1:8170:80", "localhost:evil", "127.0.0.1:8170, evil.example",
]  # fmt: skip


@pytest.mark.spec("C3", "O10")
def test_a_forged_host_on_every_route() -> None:
    """A name that was made to point here is not ours; health and metrics are no exception."""
    with ConsoleHarness() as console:
        make_fleet(console)
        walk(console, 421, "WrongHost", ("Host", "evil.example"), bearer(console.token))
        walk(console, 421, "WrongHost", bearer(console.token))
        walk(console, 421, "WrongHost", ("Host", HOST), ("Host", HOST), bearer(console.token))


def bearer(token: str) -> tuple[str, str]:
    """As programs say who they are."""
    return "Authorization", f"Bearer {token}"


def cookie(console: ConsoleHarness) -> tuple[str, str]:
    """As a browser does that has logged in as an operator."""
    token = console.tokens.access(Principal(name="operator", role=Role.OPERATOR))
    return "Cookie", f"{COOKIE}={token}"


@pytest.mark.parametrize("host", FORGED)
def test_hosts_that_are_not_ours(host: str) -> None:
    """Other names and addresses, and what is no host at all."""
    with ConsoleHarness() as console:
        for path in ("/healthz", "/api/clock", "/"):
            refused(
                console.send("GET", path, [("Host", host), bearer(console.token)]),
                421,
                "WrongHost",
                console,
            )


@pytest.mark.parametrize("host", TRICKS)
def test_hosts_that_only_look_like_ours(host: str) -> None:
    """A Host is a name and perhaps a port: nothing before, nothing after."""
    with ConsoleHarness() as console:
        refused(console.send("GET", "/healthz", [("Host", host)]), 421, "WrongHost", console)


@pytest.mark.parametrize(
    ("host", "server"),
    [
        ("127.0.0.1:8170", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("localhost:8170", "127.0.0.1"),
        ("LocalHost", "127.0.0.1"),
        ("localhost.:8170", "127.0.0.1"),
        ("[::1]:8170", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("console.example:80", "127.0.0.1"),
        ("10.1.2.3:8170", "10.1.2.3"),
    ],
)
def test_hosts_that_are_ours(host: str, server: str) -> None:
    """The address that was asked, however it is spelled; localhost; and names that were set."""
    with ConsoleHarness(hosts=("console.example",)) as console:
        reply = console.send("GET", "/healthz", [("Host", host)], server=server)
        assert reply.status == 200
        same = [("Host", host), ("Origin", f"http://{host}")]
        assert console.send("GET", "/healthz", same, server=server).status == 200


@pytest.mark.spec("C3", "O10")
@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "null", "", f"http://{HOST}.evil.example", "http://127.0.0.1:8171",
        "http://127.0.0.1", "http://localhost:8170", f"ftp://{HOST}", f"chrome-extension://{HOST}",
        HOST, f"http://user@{HOST}", f"http://{HOST}/",
    ],
)  # fmt: skip
def test_a_foreign_origin(origin: str) -> None:
    """Whatever token comes along: a page of another site asks."""
    with ConsoleHarness() as console:
        before = console.whole()
        for one in (Ask("GET", "/healthz"), Ask("POST", "/api/faults", b'{"kind":"500"}')):
            headers = [("Host", HOST), ("Origin", origin), bearer(console.token)]
            refused(console.send(*one[:2], headers, one.body), 403, "ForeignOrigin", console)
        assert console.whole() == before


@pytest.mark.spec("C3", "O10")
def test_a_foreign_origin_on_every_route() -> None:
    """With a token, with a cookie, with both; also where one of two Origins is ours."""
    with ConsoleHarness() as console:
        make_fleet(console)
        host, evil = ("Host", HOST), ("Origin", "http://evil.example")
        walk(console, 403, "ForeignOrigin", host, evil, bearer(console.token))
        walk(console, 403, "ForeignOrigin", host, ("Origin", "null"), cookie(console))
        ours = ("Origin", f"http://{HOST}")
        walk(
            console, 403, "ForeignOrigin", host, ours, evil, cookie(console), bearer(console.token)
        )


@pytest.mark.spec("C3")
@pytest.mark.parametrize("site", [None, "cross-site", "same-site", "none", "Same-Origin"])
def test_a_browser_that_does_not_say_where_it_asks_from(site: str | None) -> None:
    """A cookie alone changes nothing: the request has an Origin, or says it is of our own page."""
    with ConsoleHarness() as console:
        make_fleet(console)
        before = console.whole()
        more = [("Sec-Fetch-Site", site)] if site else []
        for one in routes(console):
            if one.changes:
                headers = [*one.headers, ("Host", HOST), cookie(console), *more]
                refused(
                    console.send(one.method, one.target, headers, one.body),
                    403,
                    "NoOrigin",
                    console,
                )
        assert console.whole() == before


def _bad_tokens(console: ConsoleHarness) -> Iterator[tuple[str, Headers]]:
    secret = console.tokens.secret(Principal(name="operator", role=Role.OPERATOR))
    expired = console.tokens.access(Principal(name="operator", role=Role.OPERATOR), -1)
    head, body, signature = console.token.split(".")
    yield "none", []
    yield "garbage", [bearer("garbage")]
    yield "empty", [("Authorization", "Bearer ")]
    yield "basic", [("Authorization", f"Basic {console.token}")]
    yield "bare", [("Authorization", console.token)]
    yield "secret", [bearer(secret)]
    yield "expired", [bearer(expired)]
    yield "cut", [bearer(f"{head}.{body}.{signature[:-1]}")]
    yield "unsigned", [bearer(f"{head}.{body}.")]
    yield "odd", [bearer("\xff" * 50)]
    yield "long", [bearer("a" * 10_000)]
    yield "cookie", [("Cookie", f"{COOKIE}=garbage"), ("Origin", f"http://{HOST}")]
    yield "key", [bearer(KEY)]


@pytest.mark.spec("C3", "C4")
def test_without_a_good_token() -> None:
    """401 on every route of the API, the way to /login on every page, and nothing is changed."""
    with ConsoleHarness() as console:
        make_fleet(console)
        before = console.whole()
        for _, headers in _bad_tokens(console):
            for one in routes(console):
                if one.target in OPEN:
                    continue
                reply = console.send(
                    one.method, one.target, [("Host", HOST), *one.headers, *headers], one.body
                )
                if one.target.startswith("/api"):
                    assert reply.status == 401, one
                else:
                    assert (reply.status, reply.headers["location"]) == (303, "/login"), one
                silent(reply, console)
        assert console.whole() == before


@pytest.mark.spec("C3", "C4")
def test_a_reader_reads_and_changes_nothing() -> None:
    """403 on whatever is not a GET; by token, and by cookie on the page."""
    with ConsoleHarness() as console:
        make_fleet(console)
        token = console.token_of(Role.READER)
        before = console.whole()
        for one in routes(console):
            if one.target in OPEN or not one.changes:
                continue
            for headers in (
                [bearer(token)],
                [("Cookie", f"{COOKIE}={token}"), ("Origin", f"http://{HOST}")],
            ):
                sent = [("Host", HOST), *one.headers, *headers]
                reply = console.send(one.method, one.target, sent, one.body)
                assert reply.status == 403, one
                silent(reply, console)
        for path in ("/api/machines", "/api/journal", "/api/timeline", "/api/openapi.json", "/"):
            assert console.api("GET", path, token=token).status == 200
        assert console.whole() == before


@pytest.mark.spec("C3", "C4")
@pytest.mark.parametrize(
    ("role", "group"), [(Role.TENANT, ""), (Role.TENANT, "g"), (Role.READER, "g")]
)
def test_others_get_nothing(role: Role, group: str) -> None:
    """A tenant, and whoever is bound to a group: the console shows the whole fleet."""
    with ConsoleHarness() as console:
        make_fleet(console)
        before = console.whole()
        token = console.token_of(role, group=group)
        for one in routes(console):
            if one.target not in OPEN:
                headers = [("Host", HOST), *one.headers, bearer(token)]
                reply = console.send(one.method, one.target, headers, one.body)
                assert reply.status == 403, one
                silent(reply, console)
        assert console.whole() == before


@pytest.mark.spec("O10")
def test_health_and_metrics_need_no_token() -> None:
    """And tell no secret."""
    with ConsoleHarness() as console:
        make_fleet(console)
        for path, word in (("/healthz", b"ok"), ("/readyz", b"ok"), ("/metrics", b"fairwarning_")):
            reply = console.send("GET", path, [("Host", HOST)])
            assert reply.status == 200
            assert word in reply.body
            silent(reply, console)


@pytest.mark.spec("O10")
def test_readyz_tells_when_writes_have_stopped() -> None:
    """503, without where the data is; health goes on, and a command is refused."""
    from fairwarning.core.errors import InvariantViolated  # noqa: PLC0415  (of this test alone)

    with ConsoleHarness() as console:
        console.created("machines", name="vm")
        console.call(lambda: console.fleet._stop_writing(InvariantViolated("Test", "because")))
        assert console.send("GET", "/healthz", [("Host", HOST)]).status == 200
        assert console.send("GET", "/readyz", [("Host", HOST)]).status == 503
        reply = console.api("POST", "/api/machines/vm/restart")
        assert (reply.status, reply.error_code) == (503, "WritesStopped")
        assert console.api("GET", "/api/machines/vm").status == 200
        console.fleet._committer.broken = None


def test_logging_in_by_the_link() -> None:
    """The key leads in once and for a while; a wrong one does not, and says so."""
    with ConsoleHarness() as console:
        reply = console.send("GET", f"/login?key={KEY}", [("Host", HOST)])
        assert (reply.status, reply.headers["location"]) == (303, "/")
        given = reply.headers["set-cookie"]
        assert "HttpOnly" in given
        assert "samesite=strict" in given.lower()
        pair = given.partition(";")[0]
        headers = [("Host", HOST), ("Cookie", pair), ("Origin", f"http://{HOST}")]
        assert console.send("GET", "/api/clock", headers).status == 200
        assert console.send("POST", "/api/clock", headers, b'{"advance": 1}').status == 200
        for wrong in ("", "x", KEY[:-1], KEY + "x", "%ff", "%00"):
            reply = console.send("GET", f"/login?key={wrong}", [("Host", HOST)])
            assert reply.status == 401
            assert "set-cookie" not in reply.headers
            silent(reply, console)


def test_logging_in_with_a_token() -> None:
    """Whoever has one is who it says, and no more; a bad one is refused beside the form."""
    with ConsoleHarness() as console:
        form = ("Content-Type", "application/x-www-form-urlencoded")
        reader = console.token_of(Role.READER)
        body = urlencode({"token": f" {reader} "}).encode()
        reply = console.send("POST", "/login", [("Host", HOST), form], body)
        assert reply.status == 303
        pair = reply.headers["set-cookie"].partition(";")[0]
        headers = [("Host", HOST), ("Cookie", pair), ("Origin", f"http://{HOST}")]
        assert console.send("GET", "/api/clock", headers).status == 200
        assert console.send("POST", "/api/clock", headers, b'{"advance": 1}').status == 403
        for bad in ("", "token=", "token=x", "other=1"):
            reply = console.send("POST", "/login", [("Host", HOST), form], bad.encode())
            assert reply.status == 401
            assert "set-cookie" not in reply.headers
        assert console.send("POST", "/login", [("Host", HOST)], b"token=x").status == 400


@pytest.mark.spec("C3")
def test_the_program_guards_its_door(tmp_path: Path) -> None:
    """Through the real server: Host and Origin, and a path that leads out of the static files."""
    with ServiceProcess(tmp_path / "data", "--memory", "--clock", "virtual") as service:
        for headers, status in (
            ({"Host": "evil.example"}, 421),
            ({"Origin": "http://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({}, 200),
        ):
            response = service.api("POST", "/api/clock", {"advance": 1}, headers=headers)
            assert response.status == status
        for path in ("/static/../login.html", "/static/..%2f..%2fapp.py", "/static/%2e%2e/page.py"):
            assert fetch(f"{service.ready['console']}{path}").status == 404
