"""The pages for many machines: the summary, and the lists of machines and events (O14)."""

import re
from collections.abc import Iterator
from html import unescape

import pytest

from fairwarning.console.page import events as events_page
from tests.console.test_page import Browser
from tests.fixtures.console import ConsoleHarness
from tests.fixtures.controlled_fleet import ControlledStore

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


def test_machines_are_filtered_and_paged(console: ConsoleHarness) -> None:
    """The filter is in the URL and stays when the list is paged."""
    browser = Browser(console)
    text = browser.text("/machines?set=web")
    assert total(text) == 30
    assert len(rows(text)) == 20
    assert rows(text) == [f"web_{number}" for number in range(20)]
    following = re.search(r'href="([^"]*)" rel="next"', text)
    assert following
    assert "set=web" in following[1]
    assert len(rows(browser.text(unescape(following[1])))) == 10
    assert rows(browser.text("/machines?power=stopped")) == ["vm_1"]
    assert "No machine matches." in browser.text("/machines?q=nothing")


def test_events_are_filtered_and_grouped(console: ConsoleHarness) -> None:
    """By any of their members, by approval, by time; also those that are over."""
    browser = Browser(console)
    every = total(browser.text("/events"))
    assert every == console.ok("GET", "/api/events")["total"]
    assert total(browser.text("/events?unapproved=true")) == every - 1
    assert total(browser.text("/events?machine=vm_0")) == 1
    assert total(browser.text("/events?since=2100-01-01T00:00")) == 0
    started = browser.text("/events?status=Started")
    assert re.findall(r"in progress</span></td>\s*<td>(.*?)</td>", started) == [""]  # NotBefore
    over = browser.text("/events?status=Over")
    assert rows(over) == ["Reboot"]
    grouped = browser.text("/events?group=set")
    groups = re.findall(r"<summary><b>(.*?)</b>: (.*?) events?</summary>", grouped)
    assert groups == [("web", str(every - 1)), ("Without a scale set", "1")]


SCRIPT = ("X-Page", "/events/confirm")


def plan(browser: Browser, action: str, query: str = "") -> dict[str, str]:
    """The hidden fields of the form that does what a page plans."""
    text = browser.text(f"/events/confirm?action={action}{query}")
    form = text[text.index('<form method="post" action="/events/confirm"') :]
    found = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', form)
    return {name: unescape(value) for name, value in found}


def test_a_filtered_list_is_cancelled_after_a_preview(console: ConsoleHarness) -> None:
    """The preview changes nothing; the form cancels the events that it counted."""
    browser = Browser(console)
    listed = browser.text("/events?set=web")
    assert re.search(r'href="/events/confirm\?[^"]*action=cancel"', listed)
    before = console.ok("GET", "/api/events")["total"]
    preview = browser.text("/events/confirm?action=cancel&set=web")
    fields = plan(browser, "cancel", "&set=web")
    assert f"Cancel {fields['count']} events?" in preview
    assert "in 1 scope</dd>" in preview
    assert console.ok("GET", "/api/events")["total"] == before
    assert browser.post("/events/confirm", **fields).status == 303
    left = console.ok("GET", "/api/events")["events"]
    assert {event["scope"] for event in left if event["status"] == "Scheduled"} == {"vm_0"}
    assert f"Cancelled {fields['count']} events." in browser.text("/events")


def test_events_that_ended_meanwhile_are_left_out(console: ConsoleHarness) -> None:
    """The others are approved all the same; those that were approved before are not asked about."""
    browser = Browser(console)
    fields = plan(browser, "approve")
    every = console.ok("GET", "/api/events")["events"]
    assert int(fields["count"]) == len(every) - 1
    (first, *_) = [event for event in every if not event["approved_by"]]
    console.ok("POST", f"/api/events/{first['id']}/cancel")
    assert browser.post("/events/confirm", **fields).status == 303
    assert f"Approved {int(fields['count']) - 1} events." in browser.text("/events")


def test_events_that_could_not_be_approved_have_not_ended() -> None:
    """If the store cannot be written, the page says so, and the events stay as they are."""
    store = ControlledStore()
    with ConsoleHarness(store=store) as console:
        console.polling("vm")
        console.act("vm", "restart")
        browser, before = Browser(console), console.ok("GET", "/api/events")
        fields = plan(browser, "approve")
        store.down.add("commit")
        reply = browser.post("/events/confirm", SCRIPT, **fields)
        store.down.clear()
        assert (reply.status, reply.json) == (503, {"error": "commit is unavailable"})
        assert console.ok("GET", "/api/events") == before


def test_more_events_than_were_planned_are_refused(console: ConsoleHarness) -> None:
    """An event that nobody has seen on the plan is not cancelled with the others."""
    browser = Browser(console)
    fields = plan(browser, "cancel", "&set=web")
    console.act("web_27", "restart")
    before = console.state()
    reply = browser.post("/events/confirm", SCRIPT, **fields)
    assert reply.status == 409
    assert "nothing was changed" in reply.json["error"]
    assert console.state() == before
    console.advance(1)
    fields = plan(browser, "cancel", "&set=web")
    console.advance(1)
    console.act("web_28", "restart")  # later than the plan
    assert "error" not in browser.post("/events/confirm", SCRIPT, **fields).json
    left = console.ok("GET", "/api/events?set=web&status=Scheduled")["events"]
    assert [event["resources"] for event in left] == [["web_28"]]


def test_many_events_are_cancelled_in_slices(
    console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """page.js sends the form again until all are done; without it, the user does."""
    monkeypatch.setattr(events_page, "_SLICE", 10)
    browser = Browser(console)
    fields = plan(browser, "cancel", "&set=web")
    total, steps = int(fields["count"]), []
    while True:
        result = browser.post("/events/confirm", SCRIPT, **fields).json
        steps.append(result["notice"])
        if not result["again"]:
            break
        fields |= result["again"]
    assert steps == [
        f"Cancelled 10 of {total} events; keep this page open.",
        f"Cancelled 20 of {total} events; keep this page open.",
        f"Cancelled {total} events.",
    ]
    for number in range(2, 17):
        console.act(f"web_{number}", "restart")
    reply = browser.post("/events/confirm", **plan(browser, "cancel", "&set=web"))
    assert "Cancelled 10 of 15 events" in browser.text(reply.headers["location"])
    assert plan(browser, "cancel", "&set=web")["count"] == "5"


def test_rollouts_are_counted_beyond_a_page(
    console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number on the start page and the list are those of all rollouts."""
    monkeypatch.setattr("fairwarning.console.api.service.MAX_PAGE_SIZE", 2)
    for number in range(5):
        console.ok("POST", "/api/rollouts", {"id": f"r{number}", "scopes": ["vm_2"]})
    assert sum(console.ok("GET", "/api/summary")["rollouts"].values()) == 5
    assert "of 5 rollouts" in Browser(console).text("/rollouts")


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
