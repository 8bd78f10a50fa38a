"""Notifications over real HTTP."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairwarning.guest.agent import agent_metrics, notify
from fairwarning.guest.agent.notices import (
    EventNotice,
    NoticePhase,
    NotifyKind,
    NotifySettings,
    render_text,
)
from fairwarning.guest.agent.notify import Notifier
from tests.fixtures.receiver import ReceivedRequest, Receiver, ReceiverResponse, in_turn
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until
from tests.guest.agents import AgentProcess, one_machine
from tests.guest.notices import ME, event

pytestmark = pytest.mark.spec("G8")

SECRET = "T0/B0/the-secret-part"
NOTICE = EventNotice(NoticePhase.SCHEDULED, event("A"), ME)
TEXT = "Reboot of vm-1: scheduled, not before 2030-01-02T03:15:00Z"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "FIRST_PAUSE_SECONDS", 0.01)


def webhook(url: str, name: str = "team", **more: Any) -> NotifySettings:  # noqa: ANN401  (other fields of the settings)
    """Return a notification to this URL."""
    return NotifySettings(**{"name": name, "kind": NotifyKind.WEBHOOK, "url": url, **more})


def count(result: str, name: str = "team") -> float:
    """Return how many notifications ended like this."""
    return agent_metrics.NOTIFICATIONS.value(name, result)


@contextmanager
def counted(result: str, name: str = "team", times: int = 1) -> Iterator[None]:
    """Wait at the end until so many more notifications ended like this."""
    before = count(result, name)
    yield
    wait_until(lambda: count(result, name) == before + times, result)


def sent(settings: NotifySettings, notice: EventNotice = NOTICE) -> None:
    """Send a notice and wait until it is sent."""
    with counted(agent_metrics.SENT, settings.name):
        Notifier([settings]).send(notice)


# --- What is sent ---------------------------------------------------------------------------------


def test_slack() -> None:
    """A text; a template may mention people, and a field may not."""
    failed = EventNotice(NoticePhase.FAILED, event("A"), ME, "<!channel> & others")
    with Receiver() as receiver:
        sent(webhook(receiver.url, kind=NotifyKind.SLACK, text="<!here> {type}: {reason}"), failed)
    assert receiver.posts[0].json == {"text": "<!here> Reboot: &lt;!channel&gt; &amp; others"}
    assert receiver.posts[0].headers["content-type"] == "application/json"
    assert receiver.posts[0].path == "/hook?from=test"


def test_teams() -> None:
    """A message with one Adaptive Card, as the webhooks of Workflows expect it."""
    with Receiver() as receiver:
        sent(webhook(receiver.url, kind=NotifyKind.TEAMS))
    message = receiver.posts[0].json
    (attachment,) = message["attachments"]
    assert message["type"] == "message"
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    text, facts = attachment["content"]["body"]
    assert (attachment["content"]["type"], text["text"]) == ("AdaptiveCard", TEXT)
    assert {"title": "machine", "value": "vm-1"} in facts["facts"]


def test_webhook() -> None:
    """The event with the endpoint's names, its phase, and the text."""
    failed = EventNotice(NoticePhase.FAILED, event("A"), ME, "hook save failed: exit code 1")
    with Receiver() as receiver:
        sent(webhook(receiver.url), failed)
    body = receiver.posts[0].json
    assert (body["EventId"], body["EventType"], body["Resources"]) == ("A", "Reboot", ["vm-1"])
    assert (body["Phase"], body["Machine"], body["Drill"]) == ("failed", "vm-1", False)
    assert body["Text"] == "Reboot of vm-1: failed (hook save failed: exit code 1)"


def test_a_drill_says_so_in_every_kind() -> None:
    """Nobody must take it for an event."""
    drill = EventNotice(NoticePhase.STARTED, event("A"), ME, drill=True)
    for kind in NotifyKind:
        assert render_text(NotifySettings("a", kind, text="{type}"), drill) == "[drill] Reboot"
    with Receiver() as receiver:
        sent(webhook(receiver.url), drill)
        assert receiver.posts[0].json["Drill"] is True


def test_only_chosen_phases_and_types_are_sent() -> None:
    """All by default."""
    chosen = webhook("http://a", phases=frozenset({"failed"}), types=frozenset({"Reboot"}))
    assert not chosen.wants(NOTICE)
    assert chosen.wants(EventNotice(NoticePhase.FAILED, event("A"), ME))
    assert webhook("http://a").wants(NOTICE)


# --- Failures -------------------------------------------------------------------------------------


def test_transient_failures_are_retried() -> None:
    """A status of 429 or 5xx is not final."""
    with Receiver(in_turn(*map(ReceiverResponse, (503, 429, 200)))) as receiver:
        sent(webhook(receiver.url))
        assert len(receiver.posts) == 3


@pytest.mark.parametrize(
    ("status", "attempts", "reason"),
    [
        (500, notify.ATTEMPTS, "500 Internal Server Error"),
        (404, 1, "404 Not Found"),  # a wrong URL does not become right by repetition
    ],
)
def test_a_failure_is_logged_once(
    caplog: pytest.LogCaptureFixture, status: int, attempts: int, reason: str
) -> None:
    """Attempts are bounded. Neither the log nor an error shows the URL; the event is a field."""
    with Receiver(in_turn(ReceiverResponse(status))) as receiver, counted(agent_metrics.FAILED):
        url = f"http://127.0.0.1:{receiver.port}/{SECRET}"
        Notifier([webhook(url)]).send(NOTICE)
    assert len(receiver.posts) == attempts
    (record,) = caplog.records
    assert record.getMessage() == (
        f"notification team (event A, scheduled) was not sent: the response was {reason}"
    )
    assert record.__dict__["event_id"] == "A"


def test_a_target_that_hangs_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each notification has its own thread; an attempt ends in time, however it hangs."""
    monkeypatch.setattr(notify, "ATTEMPT_SECONDS", 0.2)
    monkeypatch.setattr(notify, "ATTEMPTS", 1)
    with Receiver() as hanging, Receiver() as working, counted(agent_metrics.FAILED, "hanging"):
        hanging.answer = lambda _: ReceiverResponse(raw=hanging.hang)
        notifier = Notifier([webhook(hanging.url, "hanging"), webhook(working.url, "working")])
        notifier.send(NOTICE)
        wait_until(lambda: working.posts)


def test_a_full_queue_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent never waits, and its memory stays bounded."""
    monkeypatch.setattr(notify, "QUEUE_LENGTH", 2)
    with counted(agent_metrics.FAILED, "full"), Receiver() as receiver:
        receiver.answer = lambda _: ReceiverResponse(raw=receiver.hang)
        notifier = Notifier([webhook(receiver.url, "full")])
        notifier.send(NOTICE)
        wait_until(lambda: receiver.posts)
        with counted(agent_metrics.DROPPED, "full", 3):
            for _ in range(5):
                notifier.send(NOTICE)
        assert notifier.close(0.0) == 3


def test_a_reload_drops_nothing_that_waits() -> None:
    """Neither for a target that stays, nor for one that is gone, whose thread ends after it."""
    answers = (ReceiverResponse(503), ReceiverResponse(503), ReceiverResponse(200))
    with Receiver(in_turn(*answers)) as stays, Receiver(in_turn(*answers)) as goes:
        settings = webhook(stays.url, "stays"), webhook(goes.url, "goes")
        notifier = Notifier(settings)
        before = threading.active_count()
        with counted(agent_metrics.SENT, "stays", 2), counted(agent_metrics.SENT, "goes"):
            notifier.send(NOTICE)
            notifier.reconfigure([settings[0], webhook(goes.url, "new")])
            notifier.send(NOTICE)
        wait_until(lambda: len(goes.posts) == 4)
        notifier.reconfigure([])
        wait_until(lambda: threading.active_count() <= before)


@pytest.mark.parametrize("reloads", [0, 2])
def test_close_waits_for_what_is_queued(reloads: int, caplog: pytest.LogCaptureFixture) -> None:
    """A machine may be about to reboot. Notices of a target that a reload removed count too."""
    with Receiver() as receiver:
        received = threading.Event()

        def answer(_: ReceivedRequest) -> ReceiverResponse:
            assert received.wait(LIMIT_SECONDS)
            return ReceiverResponse()

        receiver.answer = answer
        notifier = Notifier([webhook(receiver.url)])
        notifier.send(NOTICE)
        for _ in range(reloads):
            notifier.reconfigure([])
        assert notifier.close(0.0) == 1
        assert "1 notifications were not sent" in caplog.text
        received.set()
        assert notifier.close(60.0) == 0
        assert len(receiver.posts) == 1


# --- Secrets --------------------------------------------------------------------------------------


def test_a_url_from_a_file_or_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Read for each notification, so that a secret can be replaced while the agent runs."""
    path = tmp_path / "url"
    with Receiver() as receiver:
        monkeypatch.setenv("TEAM_URL", receiver.url)
        sent(webhook("", url_env="TEAM_URL"))
        path.write_text(f"{receiver.url}\n", "utf-8")
        sent(webhook("", url_file=str(path)))
        assert len(receiver.posts) == 2
    monkeypatch.setenv("TEAM_URL", "")
    with counted(agent_metrics.FAILED):
        Notifier([webhook("", url_env="TEAM_URL")]).send(NOTICE)
    assert "the variable TEAM_URL is empty" in caplog.text


@pytest.mark.parametrize(
    "content", ["", f"https://a b/{SECRET}", f"https://a:x/{SECRET}", f"htps://{SECRET}", SECRET]
)
def test_a_wrong_secret_is_not_shown(content: str, tmp_path: Path) -> None:
    """The error names the file only."""
    path = tmp_path / "url"
    path.write_text(content, "utf-8")
    with pytest.raises(ValueError, match=str(path)) as refused:
        webhook("", url_file=str(path)).read_url()
    assert SECRET not in str(refused.value)


def test_settings_do_not_show_the_url() -> None:
    """They may end up in a traceback."""
    assert "secret" not in repr(webhook(f"https://a/{SECRET}"))


# --- A running agent ------------------------------------------------------------------------------


def test_an_agent_tells_each_step_once(tmp_path: Path) -> None:
    """Scheduled, failed, approved, started and over; a restart does not repeat them."""
    with one_machine(tmp_path) as (endpoint, home), Receiver() as receiver:
        home.usual_hooks(home.wait_script())
        home.hook("broken", "scheduled", "exit 3", "required = false")
        url = json.dumps(receiver.url)
        home.hooks.append(f'[[notify]]\nname = "team"\nkind = "webhook"\nurl = {url}\n')

        def phases() -> list[str]:
            return [post.json["Phase"] for post in receiver.posts]

        with AgentProcess(home) as agent:
            endpoint.restart("db_0")
            agent.wait_until(lambda: sorted(phases()) == ["failed", "scheduled"])
            agent.stop()
        with AgentProcess(home) as agent:
            home.release_hooks()
            agent.wait_until(lambda: "started" in phases())
            endpoint.finish("db")
            agent.wait_until(lambda: "over" in phases())
            assert receiver.url not in agent.output()
    told = [phase for phase in phases() if phase != "failed"]
    assert told == ["scheduled", "approved", "started", "over"]


def test_a_hanging_target_does_not_delay_the_approval(tmp_path: Path) -> None:
    """Nor the end of the agent, for longer than a moment."""
    with one_machine(tmp_path) as (endpoint, home), Receiver() as receiver:
        receiver.answer = lambda _: ReceiverResponse(raw=receiver.hang)
        url = json.dumps(receiver.url)
        home.lines = ['approve = "at once"']
        home.hooks.append(f'[[notify]]\nname = "team"\nkind = "slack"\nurl = {url}\n')
        with AgentProcess(home) as agent:
            endpoint.restart("db_0")
            agent.wait_until(lambda: endpoint.approvals and receiver.posts)
            assert agent.stop() < 30
            assert agent.process.returncode == 0
