"""The timeline of any range of time: counts, groups, and links that keep the range (O14)."""

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import quote

import pytest

from fairwarning.console.page import activity, density
from fairwarning.core.cascade import JournalLine
from fairwarning.core.decision import Fact, FactType
from fairwarning.core.model import Scope
from fairwarning.service.history.events import EventHistory
from fairwarning.service.tokens import Role
from fairwarning.store.store import Batch
from tests.console.test_page import Browser
from tests.fixtures.console import ConsoleHarness
from tests.fixtures.fleet import NOON

pytestmark = pytest.mark.spec("O8", "O14")

BAR = re.compile(r'<a href="([^"]*)" tabindex="-1"><title>(.*?)</title>')
ROW = re.compile(r'<a class="label" href="([^"]*)"><b>(.*?)</b> <span>(.*?)</span></a>')
LINK = r'<a href="([^"]*)">{}</a>'


@pytest.fixture
def console() -> Iterator[ConsoleHarness]:
    """Reboots of 24 machines of two sets at 12:00, of which those of `web` are approved at once."""
    with ConsoleHarness() as harness:
        for name in ("web", "api"):
            harness.created("sets", name=name, capacity=12)
            harness.poll(f"{name}_0")
            for number in range(12):
                harness.act(f"{name}_{number}", "restart")
        for event in harness.ok("GET", "/api/events?set=web")["events"]:
            harness.ok("POST", f"/api/events/{event['id']}/approve")
        harness.created("machines", name="vm")
        harness.act("vm", "restart")  # without notice
        harness.advance(300)
        harness.settle()
        yield harness


def rows(text: str) -> list[str]:
    """The label of each row."""
    return [f"{unescape(name)} {unescape(what)}" for _, name, what in ROW.findall(text)]


def link(text: str, label: str) -> str:
    """Where a link leads."""
    found = re.search(LINK.format(re.escape(label)), text)
    assert found
    return unescape(found[1])


@pytest.mark.parametrize("drawn_at_once", [0, 500], ids=["in a thread", "at once"])
def test_many_events_are_rows_by_set_and_type(
    console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch, drawn_at_once: int
) -> None:
    """A row leads to the events of its set and type; few events have a row each."""
    monkeypatch.setattr(activity, "_DRAWN_AT_ONCE", drawn_at_once)
    browser = Browser(console, Role.READER)
    text = browser.text("/timeline")
    assert rows(text) == ["api Reboot", "web Reboot"]  # those of `web` are over
    assert "<title>12 events: 12 scheduled; at most 12 at once</title>" in text
    (of_api,) = (unescape(link) for link, name, _ in ROW.findall(text) if name == "api")
    text = browser.text(of_api)
    assert sorted(rows(text)) == sorted(f"Reboot api_{number}" for number in range(12))
    assert 'href="/timeline?window=3600">Show all' in text
    # The timeline of the first page groups them too.
    assert "api Reboot" in rows(browser.text("/"))


def test_impact_over_time(console: ConsoleHarness) -> None:
    """What has started, also without notice, and what is to come; each bar zooms in on itself."""
    browser = Browser(console)
    text = browser.text("/timeline")
    assert [title for _, title in BAR.findall(text)] == [
        "12:00:00: 13 machines",
        "12:15:00: 0 machines, 12 to come",
    ]
    assert "Affected so far: 13 machines. To come: 12, each shown at the latest time." in text
    assert "Peak: 13 per minute." in text
    (first, _) = (unescape(href) for href, _ in BAR.findall(text))
    assert first == "/timeline?from=2026-01-09T12%3A00%3A00Z&to=2026-01-09T12%3A01%3A00Z"
    zoomed = browser.text(first)
    assert "so far: 13 machines. Peak: 13 per minute." in zoomed
    assert "so far: 12 machines. Peak: 12 per minute." in browser.text(f"{first}&set=web")


def test_a_range_can_be_shared(console: ConsoleHarness) -> None:
    """An absolute range shows the same later, also when it is older than the last day."""
    browser = Browser(console)
    path = "/timeline?from=2026-01-09T11:30:00Z&to=2026-01-09T12:30:00Z"
    console.advance(3600)
    console.settle()
    early = BAR.findall(browser.text(path))
    assert [title for _, title in early] == ["12:00:00: 13 machines", "12:15:00: 12 machines"]
    console.advance(3 * 86400)
    console.settle()
    text = browser.text(path)
    assert [title.rpartition(" 12:")[2] for _, title in BAR.findall(text)] == [
        title.partition("12:")[2] for _, title in early
    ]
    assert sorted(rows(text)) == ["api Reboot", "web Reboot"]
    assert BAR.findall(browser.text("/timeline")) == []
    assert "12%3A00%3A00Z&to=2026-01-09T13%3A00%3A00Z" in link(text, "Later")
    assert "11%3A45%3A00Z&to=2026-01-09T12%3A15%3A00Z" in link(text, "Zoom in")
    assert "11%3A00%3A00Z&to=2026-01-09T13%3A00%3A00Z" in link(text, "Zoom out")


def test_the_reading_is_bounded(console: ConsoleHarness) -> None:
    """Of a long journal the newest lines are read, and the page says from when on they are."""
    facts = [Fact(FactType.CONFIGURED, detail=str(number)) for number in range(20_000)]
    lines = [JournalLine(NOON + 400, "x", (Scope, "s"), fact) for fact in facts]
    console.run(console._store.commit(Batch(NOON, lines=lines)))
    text = Browser(console).text("/timeline")
    assert "Read back to 12:06:40 only: 20,000 lines of the journal." in text
    assert "Affected so far: 0 machines. To come: 12" in text


def test_any_name_is_only_text() -> None:
    """Names and filters are escaped, and the link of a row works."""
    name = 'x"><script>&é'
    with ConsoleHarness() as console:
        for each in (name, "b"):
            console.created("sets", name=each, capacity=12)
            console.poll(f"{each}_0")
            for number in range(12):
                console.act(quote(f"{each}_{number}"), "restart")
        browser = Browser(console)
        text = browser.text("/timeline")
        assert f"{name} Reboot" in rows(text)
        (href,) = (
            unescape(href) for href, label, _ in ROW.findall(text) if unescape(label) == name
        )
        zoomed = browser.text(href)
        assert len(rows(zoomed)) == 12
        assert "<script>&" not in text + zoomed


def test_a_strip_counts_events_in_each_column() -> None:
    """Impact is below, notice above it; what is outside the range is left out."""
    event = EventHistory(id="E", scope="s")
    spans = [
        density.Span(event, "s", 0, 30, 60, "ended"),
        density.Span(event, "s", 30, None, 60, "scheduled"),
        density.Span(event, "s", 100, None, 120, "scheduled"),
    ]
    strip = density.strip(spans, 0, 60)
    assert (strip.most, strip.notice) == (3, "M0 10H0V6.67H30V0H31V3.33H60V10z")
    assert strip.impact == "M0 10H30V6.67H60V10z"
