"""The way to a page: through the login, by a link, or to none that exists (O8)."""

import re
from html import unescape
from urllib.parse import quote, urlencode

import pytest

from fairwarning.console.access import COOKIE
from fairwarning.service.listing.index import FleetIndex
from fairwarning.service.tokens import Role
from tests.console.test_page import EVIL, FORM, PATHS, Browser
from tests.fixtures.console import HOST, KEY, ConsoleHarness

pytestmark = [pytest.mark.spec("O8"), pytest.mark.usefixtures("web_and_vm")]

HTML = ("Accept", "text/html,application/xhtml+xml")


def log_in(console: ConsoleHarness, login: str) -> str:
    """Submit the login form to the URL that it was shown at, and return where that leads."""
    headers = [("Host", HOST), ("Content-Type", FORM)]
    wrong = console.send("POST", login, headers, b"token=x")
    assert wrong.status == 401
    assert '<form method="post" class="panel fields">' in wrong.body.decode()  # to the same URL
    body = urlencode({"token": console.token_of(Role.READER)}).encode()
    reply = console.send("POST", login, headers, body)
    assert reply.status == 303
    return reply.headers["location"]


@pytest.mark.parametrize("link", ["/machines/vm", "/events?set=web&size=50", "/sets/a%3Fb%20c"])
def test_the_login_leads_to_the_page_that_was_asked_for(console: ConsoleHarness, link: str) -> None:
    """With its query, also after a wrong token, and by the link of `up`; page.js gets 401."""
    browser = Browser(console)
    browser.cookies.clear()
    assert browser.get(link, ("X-Page", "/")).status == 401
    login = browser.get(link).headers["location"]
    assert login == f"/login?{urlencode({'next': link})}"
    assert log_in(console, login) == link
    by_link = console.send("GET", f"{login}&key={KEY}", [("Host", HOST)])
    assert by_link.headers["location"] == link


@pytest.mark.parametrize(
    "foreign",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        "javascript:alert(1)",
        "evil",
        "",
    ],
)
def test_the_login_leads_to_no_other_site(console: ConsoleHarness, foreign: str) -> None:
    """Only a path on this site is followed; anything else becomes the start page."""
    assert log_in(console, f"/login?next={quote(foreign, safe='')}") == "/"


def test_a_post_does_not_come_back(console: ConsoleHarness) -> None:
    """After the login the user sees the start page: a form is not sent again."""
    browser = Browser(console)
    browser.cookies.clear()
    assert browser.post("/machines/vm/restart").headers["location"] == "/login"


@pytest.mark.parametrize("path", ["/nowhere", "/machine/vm", "/machines/nobody", "/sets/none"])
def test_an_unknown_page_is_a_page(console: ConsoleHarness, path: str) -> None:
    """It has the navigation, and the status of an unknown page."""
    reply = Browser(console).get(path, HTML)
    text = reply.body.decode()
    assert reply.status == 404
    assert "<h1>Not found</h1>" in text
    assert '<a href="/machines"' in text
    assert "Log out" in text


def test_an_unknown_page_tells_strangers_and_programs_nothing_new(console: ConsoleHarness) -> None:
    """Without a session it has no navigation; without a browser it is the JSON of the API."""
    stranger = Browser(console)
    del stranger.cookies[COOKIE]
    reply = stranger.get("/nowhere", HTML)
    assert reply.status == 404
    assert '<a href="/machines"' not in reply.body.decode()
    assert "/api/openapi.json" in stranger.get("/nowhere").json["error"]["message"]
    browser = Browser(console)
    assert "/api/openapi.json" in browser.get("/api/nowhere", HTML).json["error"]["message"]


def test_a_reader_sees_no_form_that_it_may_not_use(console: ConsoleHarness) -> None:
    """On every page the only form that changes something is the one that logs out."""
    console.act("web_1", "restart")
    console.ok("POST", "/api/rollouts", {"id": "patches", "scopes": ["web/0"]})
    console.ok("POST", "/api/webhooks", {"name": "pager", "url": "http://127.0.0.1/hook"})
    (event, *_) = console.ok("GET", "/api/events")["events"]
    browser = Browser(console, Role.READER)
    assert "/events/confirm" not in browser.text("/events")
    more = ("/rollouts/patches", f"/events/{event['id']}", "/confirm/sets/web/delete")
    for path in (*PATHS, *more):
        if path == "/login" or path.startswith("/map/machine"):  # a piece of a page
            continue
        reply = browser.get(path)
        text = unescape(reply.body.decode())
        forms = re.findall(r"<form[^>]*method=\"post\"[^>]*>", text)
        assert forms == ['<form method="post" action="/logout">'], path
        main = text[text.index("<main") : text.index("</main")]
        assert not re.findall(r"/new/(?:set|machine|rollout)\"|formaction", main), path
        assert (reply.status == 403) == path.startswith(("/new/set", "/new/machine")) or (
            path in {"/new/rollout", "/machines/nobody"}
        ), path


@pytest.mark.parametrize("kind", ["set", "machine", "rollout"])
def test_a_thing_may_be_named_new(console: ConsoleHarness, kind: str) -> None:
    """Its page is not the form that creates another."""
    named = {"id": "new", "scopes": ["vm"]} if kind == "rollout" else {"name": "new"}
    console.ok("POST", f"/api/{kind}s", named | ({"capacity": 0} if kind == "set" else {}))
    assert "<h1>new</h1>" in Browser(console).text(f"/{kind}s/new")


def test_search_leads_to_the_only_thing_of_that_name(console: ConsoleHarness) -> None:
    """By a name, by an id, or by the beginning of an id."""
    console.act("web_1", "restart", key="first-restart")
    console.ok("POST", "/api/rollouts", {"id": "patches", "scopes": ["vm"]})
    (event, *_) = console.ok("GET", "/api/events?machine=web_1")["events"]
    browser = Browser(console)
    for text, page in (
        ("web_1", "/machines/web/0/web_1"),
        ("web/0/web_1", "/machines/web/0/web_1"),
        ("vm", "/machines/vm/vm"),
        ("web", "/sets/web"),
        ("web/0", "/machines?scope=web%2F0"),
        ("patches", "/rollouts/patches"),
        ("first-restart", "/operations/first-restart"),
        ("first-re", "/operations/first-restart"),
        (event["id"], f"/events/{event['id']}"),
        (f"  {event['id'].lower()} ", f"/events/{event['id']}"),
        (event["id"][:8], f"/events/{event['id']}"),
    ):
        reply = browser.get(f"/search?{urlencode({'q': text})}")
        assert (text, reply.status) == (text, 303)
        assert reply.headers["location"] == page
        assert browser.get(page).status == 200
    console.advance(3600)
    over = browser.get(f"/search?q={event['id']}")
    assert over.headers["location"] == f"/events/{event['id']}"


def test_search_shows_several_and_says_if_there_is_none(console: ConsoleHarness) -> None:
    """Things of the same name, or names that begin so; a link to each list for any other."""
    console.created("sets", name="worker1", capacity=1)
    console.created("sets", name="worker2", capacity=1)
    console.ok("POST", "/api/rollouts", {"id": "web", "scopes": ["vm"]})
    browser = Browser(console)

    def found(text: str) -> set[str]:
        page = browser.text(f"/search?{urlencode({'q': text})}")
        assert EVIL not in page
        listed = page[page.index("<main") : page.index("</main")]
        return set(re.findall(r'<span class="chip">[^<]*</span> <a href="([^"]*)"', listed))

    assert found("web") >= {"/sets/web", "/rollouts/web"}
    assert {"/sets/worker1", "/sets/worker2"} <= found("worker")
    for nothing in ("nobody", "", "\0", EVIL, "A" * 300, "%"):
        assert found(nothing) == set()
    assert 'href="/machines?q=nobody"' in browser.text("/search?q=nobody")


def test_search_does_not_walk_the_fleet(
    console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is looked up in the indexes of the store, and not compared with every machine's."""
    walked = []
    monkeypatch.setattr(FleetIndex, "find_machines", lambda *_: walked.append(1))
    browser = Browser(console)
    for text in ("web_1", "nobody", "we", "ABCD"):
        assert browser.get(f"/search?q={text}").status in {200, 303}
    assert not walked


def test_the_list_of_scale_sets(console: ConsoleHarness) -> None:
    """By name, in pages, with a filter; each leads to its machines."""
    for number in range(25):
        console.created("sets", name=f"set{number:02}", capacity=1)
    browser = Browser(console)
    text = browser.text("/sets")
    assert "1 to 20 of 26 scale sets" in text
    assert 'href="/machines?set=set00"' in text
    assert "21 to 26 of 26 scale sets" in browser.text("/sets?page=2")
    assert "1 to 5 of 5 scale sets" in browser.text("/sets?q=SET2")


def test_all_instances_of_a_set_are_selected(console: ConsoleHarness) -> None:
    """Also those that the page does not show; the plan names how many."""
    console.created("sets", name="large", capacity=120)
    browser = Browser(console)
    assert "Select all 120 instances" in browser.text("/sets/large")
    reply = browser.post("/sets/large/instances", action="stop", all="yes", instance="3")
    question = browser.text(reply.headers["location"])
    assert "Stop 120 instances of large?" in question
    assert "Type 120 to go ahead" in question
