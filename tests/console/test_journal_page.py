"""The journal with filters: the page, and the API that it uses."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest

from fairwarning.core.decision import FactType
from fairwarning.service.listing import journal
from tests.console.test_page import EVIL, Browser
from tests.fixtures.console import ConsoleHarness

pytestmark = pytest.mark.spec("O14")


@pytest.fixture
def console() -> Iterator[ConsoleHarness]:
    """A fleet with a set, a machine, a rollout and some history, an hour apart."""
    with ConsoleHarness() as harness:
        harness.created("sets", name="web", capacity=2)
        harness.created("machines", name="vm", priority="Spot")
        harness.poll("web_0")
        harness.advance(3600)
        harness.act("web_1", "restart", key="first")
        harness.advance(3600)
        harness.ok("POST", "/api/rollouts", {"id": "patches", "scopes": ["vm"]})
        harness.advance(3600)
        yield harness


def all_lines(console: ConsoleHarness) -> list[dict[str, Any]]:
    """Every line of the journal, newest first."""
    lines: list[dict[str, Any]] = console.ok("GET", "/api/journal?limit=1000")["lines"]
    return lines[::-1]


def search(console: ConsoleHarness, query: str) -> list[dict[str, Any]]:
    """The lines that a search finds."""
    page = console.ok("GET", f"/api/journal?newest=true&limit=1000&{query}")
    assert page["next"] is None
    lines: list[dict[str, Any]] = page["lines"]
    assert lines
    return lines


def rows(text: str) -> list[int]:
    """The numbers of the lines that a page shows."""
    return [int(number) for number in re.findall(r'<tr data-key="(\d+)">', text)]


def test_lines_are_found_by_what_they_are_about(console: ConsoleHarness) -> None:
    """A set, a scope, a machine with and without its scope, an operation, a rollout, an event."""
    lines = all_lines(console)
    of_machine = [line for line in lines if "web_1" in line["machines"]]
    assert search(console, "about=web_1") == of_machine
    assert search(console, "about=web/0/web_1") == of_machine
    assert search(console, "about=vm") == [
        line for line in lines if line["about"] == "Scope vm" or "vm" in line["machines"]
    ]
    of_set = [line for line in lines if re.fullmatch(r"\w+ web(/0)?", line["about"])]
    assert search(console, "about=web") == of_set
    of_operation = search(console, "about=first")
    assert {line["about"] for line in of_operation} == {"Operation first", "Scope web/0"}
    (event,) = {line["event"] for line in of_operation if line["event"]}
    assert search(console, f"about={event.lower()}") == [
        line for line in lines if line["event"] == event
    ]
    of_rollout = search(console, "about=patches")
    assert {line["about"].partition(" ")[0] for line in of_rollout} >= {"Rollout", "Scope"}
    assert "RolloutStarted" in {line["type"] for line in of_rollout}


def test_lines_are_found_by_actor_type_time_and_text(console: ConsoleHarness) -> None:
    """All conditions must hold; a text is found in any case."""
    lines = all_lines(console)
    assert search(console, "actor=machine") == [x for x in lines if x["actor"] == "machine"]
    assert search(console, "type=machineadded") == [x for x in lines if x["type"] == "MachineAdded"]
    both = search(console, "type=Ended&about=web_1")
    assert [line["type"] for line in both] == ["Ended"]
    started = next(line["at"] for line in lines if line["type"] == "RolloutStarted")
    assert search(console, f"since={started}") == [x for x in lines if x["at"] >= started]
    assert search(console, f"until={started}") == [x for x in lines if x["at"] <= started]
    at_once = search(console, f"since={started}&until={started[:-1]}")
    assert at_once == [x for x in lines if x["at"] == started]
    assert {line["type"] for line in search(console, "q=IMPACT+BEGUN")} == {"ImpactBegun"}
    assert search(console, "q=impactbegun") == search(console, "q=IMPACT+BEGUN")
    assert {line["about"] for line in search(console, "q=patches&type=RolloutStarted")} == {
        "Rollout patches"
    }


def test_a_search_reads_a_limited_number_of_lines(
    console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it offers to search older entries, and every line is found once in the end."""
    monkeypatch.setattr(journal, "_PAGE", 7)
    monkeypatch.setattr(journal, "LINES", 7)
    wanted = [line["number"] for line in all_lines(console) if line["type"] == "MachineAdded"]
    browser, found, target, short = Browser(console), [], "/journal?type=MachineAdded", 0
    while target:
        text = browser.text(target)
        found += rows(text)
        older = re.search(r'href="([^"]*)" rel="next">Search older', text)
        short += older is not None
        target = unescape(older[1]) if older else ""
    assert found == wanted
    assert short > 1
    assert "No entry matches among the" in browser.text("/journal?type=MachineAdded")


def test_a_time_long_ago_is_found_without_reading_everything_since(
    console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first page of a search until then begins near it."""
    lines = all_lines(console)
    monkeypatch.setattr(journal, "_PAGE", 5)
    monkeypatch.setattr(journal, "LINES", 10)
    monkeypatch.setattr(journal, "_DISORDER_SECONDS", 0)
    first = lines[-1]["at"]
    page = console.ok("GET", f"/api/journal?newest=true&limit=5&until={first}")
    assert page["lines"] == [line for line in lines if line["at"] <= first][:5]


def test_older_and_newer_pages_keep_the_filter(console: ConsoleHarness) -> None:
    """So does a change of their size; the fields show what was asked for."""
    console.created("machines", name="many", count=60)
    browser = Browser(console)
    numbers = [line["number"] for line in all_lines(console)]
    assert rows(browser.text("/journal?size=50")) == numbers[:50]
    text = browser.text("/journal?type=MachineAdded&since=2026-01-01T00:00&size=50")
    assert len(rows(text)) == 50
    assert '<option value="MachineAdded" selected>Machine added</option>' in text
    assert 'name="since" type="datetime-local" step="1" value="2026-01-01T00:00:00"' in text
    (older,) = re.findall(r'href="([^"]*)" rel="next">Older', text)
    following = browser.text(unescape(older))
    assert len(rows(following)) == 13
    assert '<option value="MachineAdded" selected>' in following
    assert ">Older" not in following
    (newer,) = re.findall(r'href="([^"]*)" rel="prev">Newer', following)
    assert rows(browser.text(unescape(newer))) == rows(text)


def test_the_form_offers_every_type_and_escapes_what_was_typed(console: ConsoleHarness) -> None:
    """Text of the query is shown in the fields, never as HTML."""
    text = Browser(console).text(f"/journal?q={quote(EVIL)}&about={quote(EVIL)}")
    assert set(FactType) <= set(re.findall(r'<option value="(\w+)"', text))
    assert "<script>alert" not in text
    assert unescape(text).count(EVIL) == 2
    assert "No entry matches." in text


def test_entries_link_to_what_they_are_about(console: ConsoleHarness) -> None:
    """Operations, rollouts, sets and events have pages."""
    browser = Browser(console)
    text = browser.text("/journal?about=first")
    assert '<a href="/operations/first">Operation first</a>' in text
    assert re.search(r'<a href="/events/[0-9A-F-]+">Scheduled</a>', text)
    assert '<a href="/rollouts/patches">' in browser.text("/journal?about=patches")
    assert '<a href="/sets/web">' in browser.text("/journal?type=SetCreated")
