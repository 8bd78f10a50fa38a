"""The page shows a plan and asks before what is large or final, as the commands do."""

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import urlencode

import pytest

from tests.console.test_page import EVIL, Browser
from tests.fixtures.console import ConsoleHarness

pytestmark = pytest.mark.spec("O14")

Fields = list[tuple[str, str]]


def instances(action: str, *numbers: int) -> Fields:
    """The fields of an action on these instances of a set."""
    return [("action", action), *(("instance", str(number)) for number in numbers)]


SOME = [("scopes", "vm web/0"), ("batch", "1")]
ASKING: list[tuple[str, Fields, str]] = [
    ("/new/rollout", [("kind", "reboot")], "Start the rollout over 4 scopes?"),
    ("/new/rollout", SOME, "Start the rollout over 2 scopes?"),
    ("/rollouts/running/abort", [], "Abort the freeze of 1 machine?"),
    ("/machines/vm/delete", [], "Delete vm?"),
    ("/machines/web/0/web_1/fail", [], "Fail web_1?"),
    ("/sets/web/delete", [], "Delete web and its instances?"),
    ("/sets/web/instances", instances("delete", 0, 2), "Delete 2 instances of web?"),
    ("/sets/web/scale", [("capacity", "1")], "Scale web to 1, and delete 2 instances?"),
    ("/sets/api/scale", [("capacity", "1")], "Scale api to 1, and delete 1 instance?"),
    ("/sets/web/instances", instances("stop", 0, 2), "Stop 2 instances of web?"),
    ("/sets/web/instances", instances("reimage", 0, 2), "Reimage 2 instances of web?"),
]


@pytest.fixture
def console() -> Iterator[ConsoleHarness]:
    """A scale set that polls, two machines, and a rollout that runs."""
    with ConsoleHarness() as harness:
        harness.created("sets", name="web", capacity=3, terminate_notice="PT5M")
        harness.created("sets", name="api", capacity=2)
        harness.created("machines", name="vm")
        harness.created("machines", name="other")
        harness.poll("web_0", "other")
        harness.ok("POST", "/api/rollouts", {"id": "running", "scopes": ["other"]})
        yield harness


def hidden(text: str) -> Fields:
    """The hidden fields of the form on a confirmation page."""
    form = re.search(
        r"<form method=\"post\" action=\"[^\"]*\" data-form>.*?</form>", text, re.DOTALL
    )
    assert form is not None
    found = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', form[0])
    return [(name, unescape(value)) for name, value in found]


def submit(browser: Browser, path: str, fields: Fields, *headers: tuple[str, str]) -> str:
    """Submit a form that asks, and return the path of the confirmation page."""
    reply = browser.post_raw(path, urlencode(fields).encode(), *headers)
    if headers:
        assert reply.status == 200, reply.body
        return str(reply.json["to"])
    assert reply.status == 303, reply.body
    return reply.headers["location"]


@pytest.mark.parametrize(("path", "fields", "question"), ASKING)
def test_nothing_changes_until_it_is_confirmed(
    console: ConsoleHarness, path: str, fields: Fields, question: str
) -> None:
    """A form leads to a page with the plan; the form there has the same fields, and goes ahead."""
    before = console.state()
    browser = Browser(console)
    confirm = submit(browser, path, fields)
    assert submit(browser, path, fields, ("X-Page", "/")) == confirm
    text = browser.text(confirm)
    assert f"<h1>{question}</h1>" in unescape(text)
    assert f">{question.partition(' ')[0]}</button>" in text
    assert console.state() == before
    kept = hidden(text)
    assert [field for field in kept if field[0] != "key"] == [*fields, ("confirmed", "yes")]
    assert f'action="{path}"' in text
    done = browser.post_raw(path, urlencode(kept).encode(), ("X-Page", confirm))
    assert done.status == 200, done.body
    assert done.json["notice"]
    changed = console.state()
    assert changed != before
    browser.post_raw(path, urlencode(kept).encode())  # a second click
    assert console.state() == changed


REBOOT = [("kind", "reboot")]


def test_the_plan_of_a_rollout_is_that_of_the_command(console: ConsoleHarness) -> None:
    """It counts, says when the rollout ends, and which scopes get no notice."""
    browser = Browser(console)
    fields = [("scopes", "vm web/0"), ("kind", "reboot"), ("duration_seconds", "60")]
    text = browser.text(submit(browser, "/new/rollout", fields))
    plan = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text))
    assert plan == {
        "Impact": "reboot",
        "Machines": "4",
        "Scopes": "2, 10 at a time",
        "Steps": "4",
        "Ends": "12:03:00 if all approve at once, 12:48:00 if none does",
        "No notice": "1 scope: vm",
    }
    text = browser.text(submit(browser, "/new/rollout", [("scopes", "vm web/0"), *REBOOT]))
    assert "if none does; and the time that the impacts take, which is not known" in text
    rules = {"maintenance_window": "Daily 22:00Z PT1H"}
    console.created("machines", name="nightly", rules=rules)
    text = browser.text(submit(browser, "/new/rollout", [("scopes", "vm nightly"), *REBOOT]))
    assert "<dd>1 scope to wait for, which comes on top</dd>" in text


def test_the_plan_of_a_scale_in(console: ConsoleHarness) -> None:
    """It says which instances are deleted, how many, and with how much notice."""
    browser = Browser(console)
    plans = [
        dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", browser.text(path)))
        for path in ("/confirm/sets/web/scale?capacity=0", "/confirm/sets/api/scale?capacity=1")
    ]
    assert plans == [
        {"Deletes": "3 instances", "Instances": "web_2, web_1, web_0", "Notice": "5 min"},
        {
            "Deletes": "1 instance",
            "Instances": "api_1",
            "Notice": "none: they are deleted immediately",
        },
    ]


def test_notice_is_a_whole_number_of_seconds(console: ConsoleHarness) -> None:
    """NotBefore is rounded up; the plan and the preview show the notice of the rules."""
    console.advance(0.4)
    browser = Browser(console)
    assert "<dd>5 min</dd>" in browser.text("/confirm/sets/web/scale?capacity=0")
    assert "Schedules a Reboot event with 15 min notice." in browser.text("/machines/web_0")


def test_above_100_the_number_is_typed(console: ConsoleHarness) -> None:
    """A click alone changes nothing: of instances to delete, and of events to approve or cancel."""
    console.created("sets", name="large", capacity=120)
    console.poll("large_0")
    for number in range(110):
        console.act(f"large_{number}", "restart")
    before, browser = console.state(), Browser(console)
    for path, action, count in (
        ("/confirm/sets/large/scale?capacity=5", "/sets/large/scale", "115"),
        ("/confirm/sets/large/delete", "/sets/large/delete", "120"),
        ("/events/confirm?action=approve&set=large", "/events/confirm", "110"),
        ("/events/confirm?action=cancel&set=large", "/events/confirm", "110"),
    ):
        text = browser.text(path)
        assert f"Type {count} to go ahead" in text
        fields = hidden(text.replace(' class="panel"', ""))
        for typed in ([], [("typed", "7")]):
            reply = browser.post_raw(action, urlencode(fields + typed).encode(), ("X-Page", "/"))
            assert f"type {count} to go ahead" in reply.json["error"]
        assert console.state() == before
    done = browser.post_raw(
        action, urlencode([*fields, ("typed", "110")]).encode(), ("X-Page", "/")
    )
    assert done.json["notice"] == "Cancelled 110 events."


def test_back_keeps_what_was_entered(console: ConsoleHarness) -> None:
    """The form of a rollout that was not confirmed is filled again; any name is escaped."""
    browser = Browser(console)
    fields = [("id", "autumn"), ("scopes", "vm web/0"), ("batch", "3"), ("kind", "redeploy")]
    confirm = browser.text(submit(browser, "/new/rollout", fields))
    back = re.search(r'class="button" href="([^"]*)">Back', confirm)
    assert back is not None
    form = browser.text(unescape(back[1]))
    for _, value in fields[:3]:
        assert f'value="{value}"' in form
    assert '<option value="redeploy" selected>' in form
    assert EVIL in unescape(browser.text(f"/new/rollout?{urlencode({'id': EVIL})}"))


def test_the_clock_can_be_advanced_on_the_confirmation_page(console: ConsoleHarness) -> None:
    """The user returns to the same question, with the same fields."""
    browser = Browser(console)
    confirm = submit(browser, "/new/rollout", [("scopes", "vm web/0")])
    back = re.search(r'name="back" value="([^"]*)"', browser.text(confirm))
    assert back is not None
    reply = browser.post("/clock", advance="60", back=unescape(back[1]))
    assert reply.headers["location"] == confirm


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/new/rollout", [("scopes", "vm")]),
        ("/rollouts/running/pause", []),
        ("/machines/vm/restart", []),
        ("/sets/web/instances", instances("restart", 0)),
        ("/sets/web/instances", instances("stop", 0)),
        ("/sets/web/scale", [("capacity", "2")]),
        ("/sets/web/scale", [("capacity", "9")]),
    ],
)
def test_what_is_small_is_not_asked_about(
    console: ConsoleHarness, path: str, fields: Fields
) -> None:
    """It happens at once."""
    before = console.state()
    reply = Browser(console).post_raw(path, urlencode(fields).encode())
    assert reply.status == 303
    assert not reply.headers["location"].startswith("/confirm")
    assert console.state() != before
