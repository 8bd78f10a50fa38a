"""The pages of operations."""

import re
from html import unescape
from urllib.parse import quote

import pytest

from fairwarning.service.listing import operations
from tests.console.test_page import EVIL, Browser
from tests.fixtures.console import ConsoleHarness

pytestmark = [pytest.mark.spec("O14"), pytest.mark.usefixtures("web_and_vm")]


def listed(text: str) -> list[str]:
    """The ids of the operations that a page lists."""
    return [unescape(name) for name in re.findall(r'<tr data-key="([^"]*)">', text)]


def test_operations_are_listed_newest_first_and_by_status(console: ConsoleHarness) -> None:
    """As the API lists them."""
    console.act("web_1", "restart", key="waiting")
    console.act("vm", "stop", key="done")
    console.advance(60)
    browser = Browser(console)
    everything = [each["id"] for each in console.ok("GET", "/api/operations")["operations"]]
    assert listed(browser.text("/operations")) == everything
    assert everything[:2] == ["done", "waiting"]
    text = browser.text("/operations?status=inprogress")
    assert listed(text) == ["waiting"]
    assert '<option value="InProgress" selected>In progress</option>' in text
    assert "0 of 1 done" in text


def test_the_list_is_paged(console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages keep the filter; a search that reached its limit can be continued."""
    for number in range(30):
        console.act("vm", "restart", key=f"r{number}")
        console.advance(600)
    browser = Browser(console)
    text = browser.text("/operations?status=Succeeded")
    assert listed(text) == [f"r{number}" for number in range(29, 9, -1)]
    (older,) = re.findall(r'href="([^"]*)" rel="next">Older', text)
    following = browser.text(unescape(older))
    assert listed(following)[:10] == [f"r{number}" for number in range(9, -1, -1)]
    assert '<option value="Succeeded" selected>' in following
    monkeypatch.setattr(operations, "_PAGE", 5)
    monkeypatch.setattr(operations, "_LINES", 5)
    text = browser.text("/operations?status=Failed")
    assert "No operation matches among the entries that were searched" in text
    assert ">Search older</a>" in text


def test_each_operation_says_on_what_it_is(console: ConsoleHarness) -> None:
    """One machine, several, or a scale set; with the page of that."""
    console.created("sets", name="many", capacity=120)
    console.act("web_1", "restart", key="one")
    console.ok("POST", "/api/sets/many/restart", {"instances": list(range(110))}, key="most")
    console.ok("POST", "/api/sets/web/scale", {"capacity": 5}, key="grown")
    console.ok("POST", "/api/rollouts", {"id": "patches", "scopes": ["vm"]})
    text = Browser(console).text("/operations")
    cells = dict(re.findall(r'<tr data-key="([^"]*)">.*?</th><td>(.*?)</td>', text))
    assert cells["one"] == '<a class="plain" href="/machines/web/0/web_1">web_1</a>'
    assert (
        cells["most"]
        == '<a class="plain" href="/sets/many">many_0, many_1, many_2 and 107 more</a>'
    )
    assert cells["grown"] == '<a class="plain" href="/sets/web">web</a>'
    assert cells["patches/0/0"] == '<a class="plain" href="/machines/vm/vm">vm</a>'


def test_operations_of_a_machine_or_a_set(console: ConsoleHarness) -> None:
    """As the API lists them: those with an impact on the machine, or on any machine of the set."""
    for number in range(3):
        console.act(f"web_{number}", "restart", key=f"r{number}")
    console.act("vm", "stop", key="other")
    console.advance(1000)
    console.ok("POST", "/api/sets/web/restart", {"instances": [1, 2]}, key="both")
    console.ok("POST", "/api/sets/web/scale", {"capacity": 4}, key="grown")
    console.ok("POST", "/api/rollouts", {"id": "patches", "scopes": ["web/0"]})
    browser = Browser(console)
    for query, expected in (
        ("machine=web_1", {"both", "r1"}),
        ("machine=vm", {"other"}),
        ("set=web", {"grown", "both", "r2", "r1", "r0"}),
        ("set=web&status=Succeeded", {"grown", "r2", "r1", "r0"}),
    ):
        shown = listed(browser.text(f"/operations?{query}"))
        assert {name for name in shown if not name.startswith("patches")} == expected
        assert shown == [
            o["id"] for o in console.ok("GET", f"/api/operations?{query}")["operations"]
        ]
    assert any(name.startswith("patches") for name in listed(browser.text("/operations?set=web")))
    pages = console.pages("/api/operations?set=web", "operations", 2)
    paged = [operation["id"] for page in pages for operation in page]
    assert paged == listed(browser.text("/operations?set=web"))
    assert browser.get("/operations?machine=nobody").status == 404


def test_an_operation_is_explained_with_its_events(console: ConsoleHarness) -> None:
    """The page says what it waits for, and follows it to its end."""
    accepted = console.act("web_1", "restart", key="first")
    event = accepted["events"][0]["id"]
    browser = Browser(console)
    text = browser.text("/operations/first")
    assert "0 of 1 done" in text
    assert "Waiting for:" in text
    assert "approval by a machine of its scope" in text
    assert f'<a href="/events/{event}">Reboot of web_1</a>' in text
    assert 'href="/journal?about=first"' in text
    console.ok("POST", f"/api/events/{event}/approve")
    console.advance(3600)
    text = browser.text("/operations/first")
    assert '<span class="chip">Succeeded</span>' in text
    assert "1 of 1 done" in text
    assert "Waiting for:" not in text
    assert re.search(rf'<a href="/events/{event}">.*?<span class="badge">Ended', text)


def test_operations_of_any_id_have_a_page(console: ConsoleHarness) -> None:
    """Ids may contain slashes, as those of rollouts do, and any printable character."""
    evil = EVIL.replace("/", "")
    console.act("vm", "start", key=evil)
    console.ok("POST", "/api/rollouts", {"id": "patches", "scopes": ["web/0"]})
    browser = Browser(console)
    text = browser.text("/operations")
    ids = listed(text)
    assert evil in ids
    assert any(name.startswith("patches/") for name in ids)
    links = [unescape(link) for link in re.findall(r'href="(/operations/[^"]+)"', text)]
    assert len(links) == len(ids)
    for name, link in zip(ids, links, strict=True):
        page = browser.text(link)
        assert f'<dd class="id">{name}</dd>' in unescape(page)
        assert "<script>alert" not in page
    missing = browser.get(f"/operations/{quote(evil)}!")
    assert missing.status == 404


def test_a_large_operation_is_cut(console: ConsoleHarness) -> None:
    """It shows 20 events and 30 steps, and links to the journal for the others."""
    console.created("sets", name="big", capacity=40, terminate_notice="PT5M")
    console.poll("big_0")
    console.ok("POST", "/api/sets/big/scale", {"capacity": 0}, key="away")
    text = Browser(console).text("/operations/away")
    assert len(re.findall(r'<li data-key="[^"]+"><a href="/events/', text)) == 20
    assert "20 more not shown" in text
    assert text.count("<li><time") == 30
    assert re.search(r"\d+ earlier entries in the journal", text)
