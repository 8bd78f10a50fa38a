"""What messages look like, in both forms, and how they are signed."""

import json
from pathlib import Path

from fairwarning.core.commands import CreateScope, Fail, Recommend, Restart
from fairwarning.core.model import Machine, Priority, ScopeKind
from fairwarning.service.webhooks.messages import WebhookMessage, render, signature
from fairwarning.service.webhooks.subscription import MessageFormat
from tests.fixtures.receiver import Receiver, ReceiverResponse, agree
from tests.fixtures.waiting import run_async, wait_until_async
from tests.webhooks.webhook_fleet import Make, each_store, webhook_fleet

MESSAGE = WebhookMessage(
    id="17",
    type="com.fairwarning.event.scheduled",
    scope="a scope/ä",
    subject="a scope/ä/E1",
    at=1_767_960_000.9,
    data={"EventId": "E1", "Resources": ("web_0",)},
)


def test_cloudevents_in_structured_mode() -> None:
    """Every required attribute of CloudEvents 1.0; the source is a URI reference."""
    post = render(MESSAGE, MessageFormat.CLOUDEVENTS)
    assert post.headers["Content-Type"].split(";")[0] == "application/cloudevents+json"
    assert json.loads(post.body) == {
        "specversion": "1.0",
        "id": "17",
        "source": "/fairwarning/a%20scope%2F%C3%A4",
        "type": "com.fairwarning.event.scheduled",
        "subject": "a scope/ä/E1",
        "time": "2026-01-09T12:00:00Z",
        "datacontenttype": "application/json",
        "data": {"EventId": "E1", "Resources": ["web_0"]},
    }


def test_event_grid_schema() -> None:
    """An array of one, with the header that Event Grid's receivers look at."""
    post = render(MESSAGE, MessageFormat.EVENTGRID)
    assert post.headers["aeg-event-type"] == "Notification"
    assert json.loads(post.body) == [
        {
            "id": "17",
            "topic": "/fairwarning/a%20scope%2F%C3%A4",
            "subject": "a scope/ä/E1",
            "eventType": "com.fairwarning.event.scheduled",
            "eventTime": "2026-01-09T12:00:00Z",
            "data": {"EventId": "E1", "Resources": ["web_0"]},
            "dataVersion": "1",
            "metadataVersion": "1",
        }
    ]


def test_a_signature_that_anybody_can_recompute() -> None:
    """`printf '17.hello' | openssl dgst -sha256 -hmac secret`."""
    digest = "85a6b157fbaef3a53287c5522d496ccd706aa9b6e703d969fb6088b4d3ba2424"
    assert signature("secret", b"hello", 17) == f"t=17,v1={digest}"


@run_async
async def test_the_data_tells_what_the_document_tells() -> None:
    """Azure's names and spelling; NotBefore is empty once it has started (M8)."""
    with Receiver() as receiver:
        async with webhook_fleet() as fleet:
            await fleet.machine()
            await fleet.create(receiver)
            event = await fleet.reboot()
            await wait_until_async(lambda: len(receiver.posts) == 4)
    told = [one.json["data"] for one in receiver.posts]
    first = told[0]
    assert list(first) == [
        "EventId", "EventStatus", "EventType", "Resources", "NotBefore",
        "Scope", "Operation", "Actor", "Why",
    ]  # fmt: skip
    assert first == {
        "EventId": event,
        "EventStatus": "Scheduled",
        "EventType": "Reboot",
        "Resources": ["vm"],
        "NotBefore": "Fri, 09 Jan 2026 12:15:00 GMT",
        "Scope": "vm",
        "Operation": "restart vm 1",
        "Actor": "operator",
        "Why": "Reboot by User, not before 2026-01-09T12:15:00Z",
    }
    assert [one["EventStatus"] for one in told] == ["Scheduled", "Scheduled", "Started", "Ended"]
    assert [one["NotBefore"] for one in told[2:]] == ["", ""]
    assert {one["EventType"] for one in told} == {"Reboot"}
    assert [one["Actor"] for one in told[:3]] == ["operator", "vm", "vm"]


@run_async
async def test_several_machines() -> None:
    """Resources are those of the event, in its order."""
    with Receiver() as receiver:
        async with webhook_fleet() as fleet:
            machines = tuple(Machine(name=name) for name in ("b", "a"))
            await fleet.fleet.submit(
                CreateScope(scope="av", kind=ScopeKind.AVAILABILITY_SET, machines=machines)
            )
            await fleet.fleet.poll("av")
            await fleet.create(receiver)
            await fleet.fleet.submit(Restart(scope="av", operation="o", machines=("b", "a")))
            await wait_until_async(lambda: receiver.posts)
    assert receiver.posts[0].json["data"]["Resources"] == ["b", "a"]


@run_async
async def test_advice_lapses() -> None:
    """Advice without an impact is over at its time: scheduled, then lapsed."""
    with Receiver() as receiver:
        async with webhook_fleet() as fleet:
            machine = Machine(name="vm", priority=Priority.SPOT)
            await fleet.fleet.submit(
                CreateScope(scope="vm", kind=ScopeKind.STANDALONE, machines=(machine,))
            )
            await fleet.fleet.poll("vm")
            await fleet.create(receiver)
            await fleet.fleet.submit(Recommend(scope="vm", operation="o", machines=("vm",)))
            await fleet.fleet.advance(3600)
            await wait_until_async(lambda: len(receiver.posts) == 2)
    told = [one.json["data"] for one in receiver.posts]
    assert [one["EventStatus"] for one in told] == ["Scheduled", "Lapsed"]
    assert {one["EventType"] for one in told} == {"SpotRebalanceRecommendation"}


@run_async
async def test_what_strikes_without_notice_is_told_as_started() -> None:
    """A sudden failure: the first message is "started", and the last "ended"."""
    with Receiver() as receiver:
        async with webhook_fleet() as fleet:
            await fleet.machine()
            await fleet.create(receiver)
            await fleet.fleet.submit(Fail(scope="vm", operation="o", machines=("vm",)))
            await wait_until_async(lambda: len(receiver.posts) == 2)
    told = [one.json["data"] for one in receiver.posts]
    assert [one["EventStatus"] for one in told] == ["Started", "Ended"]
    assert [one["NotBefore"] for one in told] == ["", ""]
    assert {one["EventType"] for one in told} == {"Redeploy"}


@each_store
@run_async
async def test_a_line_gives_the_same_message_whenever_it_is_sent(
    tmp_path: Path, make: Make
) -> None:
    """Sent as it happens to one, and after a restart, when the event is gone, to another."""
    store = make(tmp_path)
    with Receiver() as early, Receiver() as late:
        async with webhook_fleet(store) as fleet:
            await fleet.machine()
            await fleet.create(early, "early")
            late.answer = lambda _: ReceiverResponse(raw=late.hang)
            await fleet.create(late, "late")
            await fleet.reboot()
            await fleet.caught_up("early")
            await wait_until_async(lambda: late.posts)
        late.answer = agree
        async with webhook_fleet(store):
            await wait_until_async(lambda: len(late.posts) == 5)
    assert [one.body for one in late.posts[1:]] == [one.body for one in early.posts]


@run_async
async def test_an_older_journal_does_not_tell_all() -> None:
    """Lines from before the type was journaled: what is not known is null."""
    with Receiver() as receiver:
        async with webhook_fleet() as fleet:
            await fleet.create(receiver)
            await fleet.invent(1)
            await wait_until_async(lambda: receiver.posts)
    data = receiver.posts[0].json["data"]
    assert (data["EventType"], data["NotBefore"]) == (None, None)
