"""The pages for many machines: the summary, and the lists of machines and events (O14)."""

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import urlencode

import pytest

from fairwarning.service.tokens import Role
from tests.console.test_page import Browser
from tests.fixtures.console import ConsoleHarness

pytestmark = pytest.mark.spec("O8", "O14")

FIGURE = re.compile(r'<a class="figure[^"]*" href="([^"]*)"><b>([\d,]+)</b>')
TOTAL = re.compile(r"of ([\d,]+) (?:machine|event)s?</span>")


@pytest.fixture
def console() -> Iterator[ConsoleHarness]:
    """Two scale sets, of which one polls; events of several kinds, one approved, one over."""
    with ConsoleHarness() as harness:
        harness.created("sets", name="web", capacity=30)
        harness.created("sets", name="api", capacity=4)
        harness.created("machines", name="vm", count=3)
        harness.poll("web_0", "vm_0")
        harness.act("vm_0", "restart")
        harness.act("vm_1", "stop")
        harness.advance(1000)  # both are over
        harness.poll("web_0", "vm_0")
        for number in range(25):
            harness.act(f"web_{number}", "restart")
        harness.act("vm_0", "redeploy")
        events = harness.ok("GET", "/api/events?machine=web_1")["events"]
        harness.ok("POST", f"/api/events/{events[0]['id']}/approve")
        harness.settle()
        yield harness


def total(text: str) -> int:
    """How many rows a list has on all pages."""
    found = TOTAL.search(text)
    return int(found[1].replace(",", "")) if found else 0


def rows(text: str) -> list[str]:
    """The first cell of each row, without the timeline's."""
    listed, _, _ = text.partition('class="panel timeline"')
    return [unescape(name) for name in re.findall(r'<th scope="row"><a [^>]*>(.*?)</a>', listed)]


def test_each_number_of_the_summary_is_that_of_its_list(console: ConsoleHarness) -> None:
    """Following the link of a figure shows as many machines or events as the figure says."""
    browser = Browser(console)
    figures = FIGURE.findall(browser.text("/"))
    lists = [(unescape(link), int(count.replace(",", ""))) for link, count in figures]
    assert len(lists) >= 8
    for link, count in lists:
        if "not_polled" in link:  # it counts scopes, and lists their machines
            machines = console.ok("GET", "/api/summary")["machines_not_polled"]
            assert total(browser.text(link)) == machines
        elif link.startswith("/rollouts"):
            assert browser.text(link).count('class="progress"') == count, link
        elif link != "/machines":
            assert total(browser.text(link)) == count, link


def test_machines_are_filtered_sorted_and_paged(console: ConsoleHarness) -> None:
    """The filter is in the URL and stays when the list is sorted or paged."""
    browser = Browser(console)
    text = browser.text("/machines?set=web&sort=-machine")
    assert total(text) == 30
    assert len(rows(text)) == 20
    assert rows(text) == sorted(rows(text), reverse=True)
    following = re.search(r'href="([^"]*)" rel="next"', text)
    assert following
    assert "set=web" in following[1]
    assert len(rows(browser.text(unescape(following[1])))) == 10
    assert rows(browser.text("/machines?power=stopped")) == ["vm_1"]
    assert "No machine matches." in browser.text("/machines?q=nothing")
    assert 'aria-sort="descending"' in text


def test_events_are_filtered_and_grouped(console: ConsoleHarness) -> None:
    """By any of their members, by approval, by time; also those that are over."""
    browser = Browser(console)
    every = total(browser.text("/events"))
    assert every == console.ok("GET", "/api/events")["total"]
    assert total(browser.text("/events?unapproved=true")) == every - 1
    assert total(browser.text("/events?machine=vm_0")) == 1
    assert total(browser.text("/events?since=2100-01-01T00:00")) == 0
    over = browser.text("/events?status=Over")
    assert rows(over) == ["Reboot"]
    grouped = browser.text("/events?group=set")
    groups = re.findall(r"<summary><b>(.*?)</b>: (.*?) events?</summary>", grouped)
    assert groups == [("web", str(every - 1)), ("Without a scale set", "1")]


def test_a_filtered_list_is_cancelled_after_a_preview(console: ConsoleHarness) -> None:
    """The preview changes nothing; the form cancels exactly the events that it listed."""
    browser = Browser(console)
    listed = browser.text("/events?set=web")
    link = re.search(r'href="(/events/confirm\?[^"]*action=cancel)"', listed)
    assert link
    before = console.ok("GET", "/api/events")["total"]
    preview = browser.text(unescape(link[1]))
    ids = re.findall(r'name="event" value="([^"]*)"', preview)
    machines = {f"web_{number}" for number in range(25)}
    assert f"Cancel {len(ids)} events?" in preview
    assert "in 1 scope</dd>" in preview
    assert console.ok("GET", "/api/events")["total"] == before
    body = urlencode([("action", "cancel"), ("key", "k"), *(("event", id_) for id_ in ids)])
    reply = browser.post_raw("/events/confirm", body.encode())
    assert reply.status == 303, reply.body
    left = console.ok("GET", "/api/events")["events"]
    assert not [event for event in left if machines & set(event["resources"])
                and event["status"] == "Scheduled"]  # fmt: skip
    assert f"Cancelled {len(ids)} events." in browser.text("/events")


def test_events_that_ended_meanwhile_are_counted(console: ConsoleHarness) -> None:
    """The others are approved all the same."""
    browser = Browser(console)
    preview = browser.text("/events/confirm?action=approve&unapproved=true")
    ids = re.findall(r'name="event" value="([^"]*)"', preview)
    console.ok("POST", f"/api/events/{ids[0]}/cancel")
    body = urlencode([("action", "approve"), *(("event", id_) for id_ in ids)])
    assert browser.post_raw("/events/confirm", body.encode()).status == 303
    notice = browser.text("/events")
    assert f"Approved {len(ids) - 1} events. 1 event had started or ended before." in notice


WRONG = [
    ("/events?group=colour", "group must be one of rollout, set, type"),
    ("/events?sort=colour", "sort must be one of start, type"),
    ("/events?type=Boom", "type must be one of Freeze"),
    ("/events?since=tomorrow", "is not a date"),
    ("/events/confirm?action=explode", "action must be one of approve, cancel"),
    ("/machines?page=x", "page must be a whole number"),
    ("/machines?page=99999999", "page must be at most"),
    ("/machines?power=on", "power must be one of running"),
]


@pytest.mark.parametrize(("path", "message"), WRONG)
def test_a_wrong_query_is_refused(console: ConsoleHarness, path: str, message: str) -> None:
    """The page says what is allowed."""
    reply = Browser(console).get(path)
    assert reply.status == 400
    assert message in unescape(reply.body.decode())


def test_a_reader_sees_lists_but_no_buttons(console: ConsoleHarness) -> None:
    """Nor can a reader send the form."""
    browser = Browser(console, Role.READER)
    assert "/events/confirm" not in browser.text("/events")
    (event, *_) = console.ok("GET", "/api/events")["events"]
    assert browser.post("/events/confirm", action="cancel", event=event["id"]).status == 403


def test_a_rollout_is_one_row_of_the_timeline(console: ConsoleHarness) -> None:
    """The row opens; the list of events can show the rollout alone."""
    console.poll("api_0", "vm_2")
    console.ok("POST", "/api/rollouts", {"id": "autumn", "scopes": ["api/0", "vm_2"]})
    console.settle()
    browser = Browser(console)
    text = browser.text("/events?rollout=autumn")
    assert re.search(r"<summary><b>Rollout autumn</b> <span>2 events: 2 scheduled</span>", text)
    assert total(text) == 2


def test_a_page_is_compressed_for_browsers(console: ConsoleHarness) -> None:
    """A page is fetched again at each change, so its size counts."""
    reply = Browser(console).get("/events", ("Accept-Encoding", "gzip"))
    assert reply.headers["content-encoding"] == "gzip"
    assert len(reply.body) < 8000
