"""Access control on every route. A refused request changes nothing."""

import asyncio
import re
from collections.abc import Callable, Iterator, MutableMapping
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
from starlette.routing import Route

from fairwarning.console.access import COOKIE
from fairwarning.console.metrics import Scrapes
from fairwarning.service.tokens import Principal, Role, TokenUse
from tests.fixtures.console import HOST, KEY, ConsoleHarness
from tests.fixtures.http import Headers, Response, asgi_scope, fetch
from tests.fixtures.loopback import free_range
from tests.fixtures.service import ServiceProcess
from tests.fixtures.tokens import sign_token
from tests.fixtures.waiting import LIMIT_SECONDS

OPEN = {"/healthz", "/readyz", "/metrics", "/login", "/logout", "/static/page.css"}
"""The paths that need no token."""
SCRAPES = 20
FLEET = '[[machine]]\nname = "vm"\n'
PATH_PARAMS = {
    "name": "vm", "id": "vm", "action": "restart", "set": "web", "scope": "vm", "machine": "vm",
    "event": "E",
}  # fmt: skip


class RouteRequest(NamedTuple):
    """A request to a route."""

    method: str
    target: str
    body: bytes = b""

    @property
    def changes(self) -> bool:
        """Whether the request is meant to change something."""
        return self.method not in {"GET", "HEAD"}

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The headers that describe its body."""
        form = [("Content-Type", "application/x-www-form-urlencoded")]
        return form if self.changes and not self.target.startswith("/api") else []


def is_closed(request: RouteRequest) -> bool:
    """Whether a request needs a token."""
    return request.target not in OPEN


def all_requests(console: ConsoleHarness) -> list[RouteRequest]:
    """Return a request for every route and method of the application."""
    requests = []
    for route in console.app.routes:
        assert isinstance(route, Route), f"{route} is not covered"
        path = re.sub(r"{(\w+)(:\w+)?}", lambda match: PATH_PARAMS.get(match[1], "x"), route.path)
        path = path.replace("/static/vm", "/static/page.css")
        api = path.startswith("/api")
        body = (
            b'{"name": "new", "advance_seconds": 60}'
            if api
            else urlencode({"advance": 60}).encode()
        )
        requests += [
            RouteRequest(method, path, body if method not in {"GET", "HEAD"} else b"")
            for method in sorted(route.methods or {"GET"})
        ]
    assert len(requests) > 100
    return requests


def make_fleet(console: ConsoleHarness) -> None:
    """Create one resource of each kind, so that requests have something to change."""
    console.created("machines", name="vm")
    console.created("sets", name="web", capacity=2, terminate_notice="PT5M")
    console.poll("vm", "web_0")
    console.act("vm", "freeze", key="op")
    console.ok("POST", "/api/rollouts", {"id": "vm", "sets": ["web"]})
    console.ok("POST", "/api/faults", {"kind": "500", "scope": "web/0"})
    console.write_deliveries()


def assert_refused(reply: Response, status: int, code: str, console: ConsoleHarness) -> None:
    """Assert the status and code of a refusal that leaks no secret."""
    assert (reply.status, reply.error_code) == (status, code)
    assert_no_secrets(reply, console)


def assert_no_secrets(reply: Response, console: ConsoleHarness) -> None:
    """Assert that a response contains no token, no local path and no stack trace."""
    text = reply.body.decode() + repr(sorted(reply.headers.items()))
    paths = ("Traceback", 'File "', str(Path.cwd()), "site-packages", "/root")
    assert not [secret for secret in (console.token, KEY, *paths) if secret in text]


def send_everywhere(
    console: ConsoleHarness,
    *headers: tuple[str, str],
    wanted: Callable[[RouteRequest], bool] = lambda _: True,
) -> Iterator[tuple[RouteRequest, Response]]:
    """Send these headers to every route; assert that nothing leaks and nothing changes."""
    before = console.state()
    for request in all_requests(console):
        if wanted(request):
            sent = [*request.headers, *headers]
            reply = console.send(request.method, request.target, sent, request.body)
            assert_no_secrets(reply, console)
            yield request, reply
    assert console.state() == before


def assert_all_refused(
    console: ConsoleHarness, status: int, code: str, *headers: tuple[str, str]
) -> None:
    """Assert that every route refuses a request with these headers."""
    for request, reply in send_everywhere(console, *headers):
        assert reply.status == status, request
        assert request.method == "HEAD" or reply.error_code == code, request


FORGED = [
    "evil.example", "evil.example:8170", "127.0.0.2:8170", "169.254.169.254", "[::1]:8170",
    "localhost.evil.example", "127.0.0.1.evil.example", "127.1", "2130706433", "0x7f.0.0.1",
    "0.0.0.0", "localhost\x00", "", ":8170", "[", "[::1",
    "evil.example@localhost", "evil.example@127.0.0.1:8170", "user:word@127.0.0.1", "@localhost",
    "localhost/evil.example", "localhost#evil.example", "localhost?evil.example",
    "127.0.0.1:8170:80", "localhost:evil", "127.0.0.1:8170, evil.example",
]  # fmt: skip


@pytest.mark.spec("C3", "O10")
def test_a_forged_host_on_every_route(console: ConsoleHarness) -> None:
    """A foreign, missing or repeated Host is refused everywhere, also for health and metrics."""
    make_fleet(console)
    assert_all_refused(console, 421, "WrongHost", ("Host", "evil.example"), bearer(console.token))
    assert_all_refused(console, 421, "WrongHost", bearer(console.token))
    assert_all_refused(
        console, 421, "WrongHost", ("Host", HOST), ("Host", HOST), bearer(console.token)
    )


def bearer(token: str) -> tuple[str, str]:
    """Return the header by which programs authenticate."""
    return "Authorization", f"Bearer {token}"


def in_browser(session: str) -> list[tuple[str, str]]:
    """Return the headers of the console's own page, with this session."""
    return [("Cookie", f"{COOKIE}={session}"), ("Origin", f"http://{HOST}")]


def in_browser_of(login: Response) -> list[tuple[str, str]]:
    """Return all headers of the page after this login."""
    session = login.headers["set-cookie"].partition(";")[0].removeprefix(f"{COOKIE}=")
    return [("Host", HOST), *in_browser(session)]


def cookie(console: ConsoleHarness) -> tuple[str, str]:
    """Return the cookie of a browser that is logged in as an operator."""
    return "Cookie", f"{COOKIE}={console.token_of(Role.OPERATOR, use=TokenUse.PAGE)}"


@pytest.mark.parametrize("host", FORGED)
def test_foreign_hosts(console: ConsoleHarness, host: str) -> None:
    """Other names, other addresses and malformed hosts are refused."""
    for path in ("/healthz", "/api/clock", "/"):
        assert_refused(
            console.send("GET", path, [("Host", host), bearer(console.token)]),
            421,
            "WrongHost",
            console,
        )


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
def test_own_hosts(host: str, server: str) -> None:
    """Any spelling of the server's address, localhost, and configured names are accepted."""
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
def test_a_foreign_origin(console: ConsoleHarness, origin: str) -> None:
    """A request from a foreign origin is refused, even with a valid token."""
    before = console.state()
    for request in (
        RouteRequest("GET", "/healthz"),
        RouteRequest("POST", "/api/faults", b'{"kind":"500"}'),
    ):
        headers = [("Host", HOST), ("Origin", origin), bearer(console.token)]
        assert_refused(
            console.send(*request[:2], headers, request.body), 403, "ForeignOrigin", console
        )
    assert console.state() == before


@pytest.mark.spec("C3", "O13")
@pytest.mark.parametrize(
    ("scheme", "origin", "status"),
    [("https", "https", 200), ("https", "http", 403), ("http", "https", 200)],
    ids=["TLS", "a page without TLS", "behind a proxy that ends TLS"],
)
def test_the_scheme_of_an_origin(
    console: ConsoleHarness, scheme: str, origin: str, status: int
) -> None:
    """A console with TLS trusts no page that came without it."""
    headers = [("Host", HOST), ("Origin", f"{origin}://{HOST}"), bearer(console.token)]
    assert console.send("GET", "/api/clock", headers, scheme=scheme).status == status


@pytest.mark.spec("C3", "O13")
@pytest.mark.parametrize(
    ("scheme", "header", "secure"),
    [
        ("https", ("Accept", "*/*"), True),
        ("http", ("Accept", "*/*"), False),
        ("http", ("X-Forwarded-Proto", "https"), True),
        ("http", ("X-Forwarded-Proto", "HTTPS, http"), True),
        ("http", ("X-Forwarded-Proto", "http"), False),
        ("https", ("X-Forwarded-Proto", "http"), True),
        ("http", ("Origin", f"https://{HOST}"), True),
        ("http", ("Origin", f"http://{HOST}"), False),
    ],
)
def test_the_cookie_over_tls(scheme: str, header: tuple[str, str], *, secure: bool) -> None:
    """A browser sends it over TLS only, if it got it so, also behind a proxy that ends TLS."""
    with ConsoleHarness() as console:
        reply = console.send("GET", f"/login?key={KEY}", [("Host", HOST), header], scheme=scheme)
    assert ("; Secure" in reply.headers["set-cookie"]) is secure


@pytest.mark.spec("C3", "O10")
def test_a_foreign_origin_on_every_route(console: ConsoleHarness) -> None:
    """With a token, a cookie or both, and also if only one of two Origins is foreign."""
    make_fleet(console)
    host, evil = ("Host", HOST), ("Origin", "http://evil.example")
    assert_all_refused(console, 403, "ForeignOrigin", host, evil, bearer(console.token))
    assert_all_refused(console, 403, "ForeignOrigin", host, ("Origin", "null"), cookie(console))
    ours = ("Origin", f"http://{HOST}")
    assert_all_refused(
        console, 403, "ForeignOrigin", host, ours, evil, cookie(console), bearer(console.token)
    )


@pytest.mark.spec("C3")
@pytest.mark.parametrize("site", [None, "cross-site", "same-site", "none", "Same-Origin"])
def test_a_cookie_without_an_origin(console: ConsoleHarness, site: str | None) -> None:
    """A change by cookie needs an Origin, or Sec-Fetch-Site: same-origin."""
    make_fleet(console)
    site_header = [("Sec-Fetch-Site", site)] if site else []
    headers = [("Host", HOST), cookie(console), *site_header]
    for _, reply in send_everywhere(console, *headers, wanted=lambda each: each.changes):
        assert (reply.status, reply.error_code) == (403, "NoOrigin")


def _bad_tokens(console: ConsoleHarness) -> Iterator[tuple[str, Headers]]:
    expired = sign_token(console.tokens, Principal(name="operator", role=Role.OPERATOR), seconds=-1)
    head, body, signature = console.token.split(".")
    yield "none", []
    yield "garbage", [bearer("garbage")]
    yield "empty", [("Authorization", "Bearer ")]
    yield "basic", [("Authorization", f"Basic {console.token}")]
    yield "bare", [("Authorization", console.token)]
    for use in (TokenUse.PAGE, TokenUse.ARM, TokenUse.LOGIN):
        yield use, [bearer(console.token_of(Role.OPERATOR, use=use))]
    for use in (TokenUse.API, TokenUse.ARM, TokenUse.LOGIN):
        token = console.token_of(Role.OPERATOR, use=use)
        yield f"{use} as a cookie", in_browser(token)
    yield "expired", [bearer(expired)]
    yield "cut", [bearer(f"{head}.{body}.{signature[:-1]}")]
    yield "unsigned", [bearer(f"{head}.{body}.")]
    yield "odd", [bearer("\xff" * 50)]
    yield "long", [bearer("a" * 10_000)]
    yield "cookie", in_browser("garbage")
    yield "key", [bearer(KEY)]


@pytest.mark.spec("C3", "C4", "C7")
def test_without_a_good_token(console: ConsoleHarness) -> None:
    """Every API route gives 401, every page redirects to the login, and nothing changes."""
    make_fleet(console)
    host = ("Host", HOST)
    for name, headers in _bad_tokens(console):
        for request, reply in send_everywhere(console, host, *headers, wanted=is_closed):
            if request.target.startswith("/api"):
                assert reply.status == 401, (name, request)
            else:
                login = reply.headers["location"].partition("?")[0]
                assert (reply.status, login) == (303, "/login"), request


@pytest.mark.spec("C3", "C4")
def test_a_reader_reads_and_changes_nothing(console: ConsoleHarness) -> None:
    """Everything but GET gives 403, by token and by cookie."""
    make_fleet(console)
    token = console.token_of(Role.READER)
    session = console.token_of(Role.READER, use=TokenUse.PAGE)
    for headers in ([bearer(token)], in_browser(session)):
        host = ("Host", HOST)
        for request, reply in send_everywhere(
            console, host, *headers, wanted=lambda each: each.changes and is_closed(each)
        ):
            assert reply.status == 403, request
    for path in ("/api/machines", "/api/journal", "/api/openapi.json", "/"):
        assert console.api("GET", path, token=token).status == 200


@pytest.mark.spec("C3")
@pytest.mark.parametrize(
    ("path", "body"), [("/api/machines", b'{"name": "vm"}'), ("/new/machine", b"name=vm")]
)
def test_a_token_that_is_revoked_while_the_body_arrives(
    console: ConsoleHarness, path: str, body: bytes
) -> None:
    """A client may send its body slowly; nothing is changed in its name any more (IS6)."""
    token = console.token_of(Role.OPERATOR)
    claims = console.tokens.read(token, TokenUse.API)
    form = ("Content-Type", "application/x-www-form-urlencoded")
    headers = [("Host", HOST), bearer(token), ("Origin", f"http://{HOST}"), form]
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        await console.issued_tokens.revoke(claims, actor="test")
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    console.run(console.app(asgi_scope("POST", path, headers), receive, send))
    assert sent[0]["status"] in {303, 401}  # to the login
    assert not console.ok("GET", "/api/machines")["machines"]


@pytest.mark.spec("C3", "C4")
@pytest.mark.parametrize("by_session", [False, True])
@pytest.mark.parametrize(
    ("role", "group", "reason"),
    [
        (Role.TENANT, "", "'tenant' has the role tenant; use an operator's token"),
        *((role, "g", f"the token of '{role}' is limited to the group 'g'") for role in Role),
    ],
)
def test_tokens_for_the_control_plane_get_nothing(
    console: ConsoleHarness, role: Role, group: str, reason: str, *, by_session: bool
) -> None:
    """Those of tenants, and those for one group: the console covers the whole fleet."""
    make_fleet(console)
    session = console.token_of(role, group=group, use=TokenUse.PAGE)
    token = console.token_of(role, group=group)
    headers = in_browser(session) if by_session else [bearer(token)]
    for request, reply in send_everywhere(console, ("Host", HOST), *headers, wanted=is_closed):
        assert reply.status == 403, request
        assert request.method == "HEAD" or reason in unescape(reply.text), request
    form = ("Content-Type", "application/x-www-form-urlencoded")
    body = urlencode({"token": token}).encode()
    refused = console.send("POST", "/login", [("Host", HOST), form], body)
    assert (refused.status, "set-cookie" in refused.headers) == (403, False)
    assert reason in unescape(refused.text)


@pytest.mark.spec("O10")
def test_readyz_when_writes_have_stopped(console: ConsoleHarness) -> None:
    """It gives 503; /healthz stays 200, reads go on, and commands are refused."""
    from fairwarning.core.errors import StoreDamaged  # noqa: PLC0415  (for this test only)

    console.created("machines", name="vm")
    console.call(lambda: console.fleet.writer.stop_writing(StoreDamaged("Test", "because")))
    assert console.send("GET", "/healthz", [("Host", HOST)]).status == 200
    ready = console.send("GET", "/readyz", [("Host", HOST)])
    assert (ready.status, ready.json["status"]) == (503, "unavailable")
    problems = {part["name"]: part["problem"] for part in ready.json["parts"]}
    assert problems["writer"].startswith("writes have stopped")
    assert ready.json["error"] in problems.values()
    reply = console.api("POST", "/api/machines/vm/restart")
    assert (reply.status, reply.error_code) == (503, "WritesStopped")
    assert console.api("GET", "/api/machines/vm").status == 200
    console.fleet._committer.broken = None


@pytest.mark.spec("O10")
def test_readyz_lists_every_part(tmp_path: Path) -> None:
    """A part with a problem makes the service degraded, on every surface; it is still ready."""
    ports = free_range(1)
    words = ("--memory", "--machine-ports", f"{ports.first}-{ports.last}")
    with ServiceProcess(tmp_path / "data", *words, fleet=FLEET) as service:
        service.poll("vm")
        service.get("vm", "/wrong")
        ready = fetch(f"{service.ready['console']}/readyz")
        names = {"metadata", "driver", "console", "arm", "webhooks", "store", "writer", "clock"}
        assert names <= {part["name"] for part in ready.json["parts"]}
        assert (ready.status, ready.json["status"]) == (200, "ok")
        service.ok("POST", "/api/machines", {"name": "another"})
        degraded = fetch(f"{service.ready['console']}/readyz")
        assert (degraded.status, degraded.json["status"]) == (200, "degraded")
        problem = degraded.json["parts"][0]["problem"]
        assert problem.startswith("no port for 1 machines: ")
        assert service.ok("GET", "/api/summary")["degraded"] == {"metadata": problem}
        check = service.run("healthcheck")
        expected = f"The service is ready, but degraded:\n  metadata: {problem}\n"
        assert (check.returncode, check.stdout) == (0, expected)
        metrics = fetch(f"{service.ready['console']}/metrics").text
        assert 'fairwarning_part_healthy{part="metadata"} 0.0' in metrics
        assert 'fairwarning_part_healthy{part="store"} 1.0' in metrics
        assert "fairwarning_polls_total 1.0" in metrics.splitlines()
        assert 'fairwarning_requests_refused_total{reason="path"} 1.0' in metrics


def test_login_by_link(console: ConsoleHarness) -> None:
    """The right key gives a session cookie; a wrong key gives 401."""
    reply = console.send("GET", f"/login?key={KEY}", [("Host", HOST)])
    assert (reply.status, reply.headers["location"]) == (303, "/")
    session = reply.headers["set-cookie"]
    assert "HttpOnly" in session
    assert "samesite=lax" in session.lower()
    headers = in_browser_of(reply)
    assert console.send("GET", "/api/clock", headers).status == 200
    assert console.send("POST", "/api/clock", headers, b'{"advance_seconds": 1}').status == 200
    for wrong in ("", "x", KEY[:-1], KEY + "x", "%ff", "%00"):
        reply = console.send("GET", f"/login?key={wrong}", [("Host", HOST)])
        assert reply.status == 401
        assert "set-cookie" not in reply.headers
        assert_no_secrets(reply, console)


def test_login_with_a_token(console: ConsoleHarness) -> None:
    """The session has the role of the token; a bad token is refused."""
    form = ("Content-Type", "application/x-www-form-urlencoded")
    reader = console.token_of(Role.READER)
    body = urlencode({"token": f" {reader} "}).encode()
    reply = console.send("POST", "/login", [("Host", HOST), form], body)
    assert reply.status == 303
    headers = in_browser_of(reply)
    assert console.send("GET", "/api/clock", headers).status == 200
    assert console.send("POST", "/api/clock", headers, b'{"advance_seconds": 1}').status == 403
    for bad in ("", "token=", "token=x", "other=1"):
        reply = console.send("POST", "/login", [("Host", HOST), form], bad.encode())
        assert reply.status == 401
        assert "set-cookie" not in reply.headers
    assert console.send("POST", "/login", [("Host", HOST)], b"token=x").status == 400


@pytest.mark.spec("C7")
def test_a_log_out_that_cannot_be_stored(console: ConsoleHarness) -> None:
    """The browser is told and keeps its cookie; it can try again."""
    reply = console.send("GET", f"/login?key={KEY}", [("Host", HOST)])
    headers = in_browser_of(reply)
    console.run(console._store.close())
    refused = console.send("POST", "/logout", headers)
    assert refused.status == 503
    assert "the store is closed" in refused.text
    assert "set-cookie" not in refused.headers
    assert console.send("GET", f"/login?key={KEY}", [("Host", HOST)]).status == 503
    console.run(console._store.open())
    assert console.send("POST", "/logout", headers).headers["location"] == "/login"
    assert console.send("GET", "/api/clock", headers).status == 401


@pytest.mark.spec("C3")
def test_checks_in_the_real_server(tmp_path: Path) -> None:
    """It checks Host and Origin, and static paths cannot leave their folder."""
    with ServiceProcess(tmp_path / "data", "--memory", "--clock", "virtual") as service:
        for headers, status in (
            ({"Host": "evil.example"}, 421),
            ({"Origin": "http://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({}, 200),
        ):
            response = service.api("POST", "/api/clock", {"advance_seconds": 1}, headers=headers)
            assert response.status == status
        for path in ("/static/../login.html", "/static/..%2f..%2fapp.py", "/static/%2e%2e/page.py"):
            assert fetch(f"{service.ready['console']}{path}").status == 404


def test_many_scrapes_at_once() -> None:
    """The metrics are rendered once for all that wait; one response begins in a turn (IB7)."""
    rendered: list[bytes] = []

    def render() -> bytes:
        rendered.append(b"%d" % len(rendered))
        return rendered[-1]

    async def scrape() -> list[bytes]:
        scrapes = Scrapes(render)
        tasks = [asyncio.create_task(scrapes.render()) for _ in range(SCRAPES)]
        tasks[1].cancel()
        done: list[int] = []
        while len(done) < 2 or done[-1] < SCRAPES:
            await asyncio.sleep(0)
            done.append(sum(task.done() for task in tasks))
        assert max(after - before for before, after in pairwise(done)) == 1
        later = await scrapes.render()
        return [await task for task in tasks if not task.cancelled()] + [later]

    assert asyncio.run(scrape()) == [b"0"] * (SCRAPES - 1) + [b"1"]


def test_metrics_that_cannot_be_rendered() -> None:
    """Every request that waits fails, and none waits for ever (IB6)."""

    def render() -> bytes:
        raise LookupError("a part without a name")

    async def scrape() -> None:
        scrapes = Scrapes(render)
        requests = [asyncio.create_task(scrapes.render()) for _ in range(2)]
        done, _ = await asyncio.wait(requests, timeout=LIMIT_SECONDS)
        assert [type(request.exception()) for request in done] == [LookupError] * 2

    asyncio.run(scrape())
