"""The page of a machine, for the author of a handler."""

import json
import re
from html import unescape
from importlib.metadata import version
from pathlib import Path
from shlex import quote
from urllib.parse import quote as url_quote

import pytest

from fairwarning.core import cascade
from fairwarning.core.model import Scope
from tests.console.test_page import Browser
from tests.fixtures.console import ConsoleHarness
from tests.fixtures.credentials import by_cookie, open_session
from tests.fixtures.fleet import NEWEST
from tests.fixtures.programs import run_program
from tests.fixtures.requirements import needs_curl
from tests.fixtures.service import ServiceProcess

pytestmark = [pytest.mark.spec("O8"), pytest.mark.usefixtures("web_and_vm")]


def part(text: str, name: str) -> str:
    """The element with this id, as text."""
    match = re.search(rf'<(\w+) id="{name}".*?</\1>', text, re.DOTALL)
    assert match is not None
    return unescape(re.sub(r"<[^>]+>", "", match[0]))


def shown_document(text: str) -> object:
    """The document that the page shows."""
    match = re.search(r"<pre[^>]*>(.*?)</pre>", text, re.DOTALL)
    assert match is not None
    return json.loads(unescape(match[1]))


def action_labels(text: str) -> set[str]:
    """The actions that have a button."""
    forms = re.findall(r'<form method="post" action="/machines/.*?</form>', text, re.DOTALL)
    return {label for form in forms for label in re.findall(r"<button[^>]*>(.*?)</button>", form)}


def test_the_document_is_the_one_that_the_endpoint_sends(console: ConsoleHarness) -> None:
    """At the newest api-version."""
    console.act("web_1", "restart")
    console.act("web_2", "delete")
    text = Browser(console).text("/machines/web_1")
    assert shown_document(text) == console.get("web_1", NEWEST).json
    assert f"Fairwarning {version('fairwarning')}" in text


def test_reading_the_page_is_no_poll(console: ConsoleHarness) -> None:
    """It neither turns Scheduled Events on nor counts as the last poll."""
    before = console.state()
    browser = Browser(console)
    text = browser.text("/machines/vm")
    assert "Last pollnever" in part(text, "endpoint").replace("\n", "")
    assert "The first poll turns Scheduled Events on" in part(text, "document")
    polled_at = part(browser.text("/machines/web_1"), "endpoint")
    console.advance(60)
    browser.text("/machines/web_1")
    assert part(browser.text("/machines/web_1"), "endpoint") == polled_at
    assert [line for line in console.state() if isinstance(line, Scope)] == [
        line for line in before if isinstance(line, Scope)
    ]
    assert not console.ok("GET", "/api/scopes/vm")["enabled"]


def test_the_last_poll_is_shown_before_it_is_recorded(console: ConsoleHarness) -> None:
    """Polls are recorded every few minutes; API and page know the last one."""
    console.advance(60)
    console.poll("web_2")
    assert console.ok("GET", "/api/scopes/web/0")["polled_at"].endswith("12:01:00Z")
    assert "Last poll12:01:00" in part(Browser(console).text("/machines/web_1"), "endpoint")


def refused(text: str) -> str:
    """The actions that are not possible, with the reasons."""
    return unescape(text.partition("Not possible now</h3>")[2].partition("</ul>")[0])


def test_actions_that_are_not_possible_are_listed_with_their_reasons(
    console: ConsoleHarness,
) -> None:
    """What is in the way is named; actions for Spot machines are never possible on others."""
    browser = Browser(console)
    assert "<b>Evict, Recommend rebalance</b>" in refused(browser.text("/machines/vm"))
    console.act("web_1", "restart")
    text = browser.text("/machines/web_1")
    assert refused(text).count("has an unfinished reboot") == 1
    assert "<b>Restart" in refused(text)
    assert "Restart" not in action_labels(text)
    assert {"Delete", "Fail now"} <= action_labels(text)
    console.act("vm", "deallocate")
    console.advance(3600)
    text = browser.text("/machines/vm")
    assert "'vm' is deallocated; start it first" in refused(text)
    assert "answers with 404 while the machine is deallocated" in text


def test_a_bug_in_the_rules_is_a_reason_why_an_action_is_not_possible(
    console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page of the machine is shown all the same (IB1)."""
    browser = Browser(console)
    monkeypatch.setattr(cascade, "run", lambda *_: 1 // 0)
    text = browser.text("/machines/vm")
    assert "Restart" in refused(text)
    assert "a bug in the service" in refused(text)


@pytest.mark.parametrize("name", ["vm", "a'c", "-x"])
def test_the_command_to_run_a_program_names_the_machine(console: ConsoleHarness, name: str) -> None:
    """It is quoted for a shell; without a URL the page says what works."""
    if name != "vm":
        console.created("machines", name=name)
    text = unescape(Browser(console).text(f"/machines/{url_quote(name)}"))
    quoted = quote(name)
    words = f"-- {quoted} COMMAND" if name.startswith("-") else f"{quoted} -- COMMAND"
    assert f'value="fairwarning exec {words}"' in text
    assert "no URL answers from here" in text
    assert "curl" not in text


def test_machines_of_one_name_are_named_with_their_scope(console: ConsoleHarness) -> None:
    """Otherwise the command would be refused."""
    console.created("machines", name="web_0")
    browser = Browser(console)
    assert "exec web/0/web_0 -- COMMAND" in browser.text("/machines/web/0/web_0")
    assert "exec web_0/web_0 -- COMMAND" in browser.text("/machines/web_0/web_0")
    assert "exec web_1 -- COMMAND" in browser.text("/machines/web_1")


@needs_curl
def test_the_command_that_reads_the_document_works(tmp_path: Path) -> None:
    """It is pasted into a shell, and prints what the page shows."""
    with ServiceProcess(tmp_path / "data", "--sample", "--memory") as service:
        text = by_cookie(service, open_session(service), "/machines/db_0").body.decode()
        (command,) = re.findall(r'<input id="curl"[^>]* value="([^"]*)"', text)
        done = run_program("sh", "-c", f"{unescape(command)} --silent")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["Events"] == []
