"""The content of messages, and their signatures."""

import json

import pytest

from fairwarning.core.commands import Cancel, CreateScope, Fail, Operate, Recommend, Restart
from fairwarning.core.model import Machine, Priority, ScopeKind
from fairwarning.service.webhooks.messages import WebhookMessage, render, signature
from fairwarning.store.store import Store
from tests.fixtures.receiver import Receiver, ReceiverResponse, agree
from tests.fixtures.waiting import wait_until_async
from tests.webhooks.webhook_fleet import each_store, subscribed, webhook_fleet

MESSAGE = WebhookMessage(
    id="17",
    type="com.fairwarning.event.scheduled",
    scope="a scope/ä",
    subject="a scope/ä/E1",
    at=1_767_960_000.9,
    data={"EventId": "E1", "Resources": ("web_0",)},
)


def test_cloudevents_in_structured_mode() -> None:
    """A message has every required attribute of CloudEvents 1.0; the source is a URI reference."""
    headers, body = render(MESSAGE)
    assert headers["Content-Type"].split(";")[0] == "application/cloudevents+json"
    assert json.loads(body) == {
        "specversion": "1.0",
        "id": "17",
        "source": "/fairwarning/a%20scope%2F%C3%A4",
        "type": "com.fairwarning.event.scheduled",
        "subject": "a scope/ä/E1",
        "time": "2026-01-09T12:00:00Z",
        "datacontenttype": "application/json",
        "data": {"EventId": "E1", "Resources": ["web_0"]},
    }


def test_the_signature_can_be_recomputed() -> None:
    """`printf '17.hello' | openssl dgst -sha256 -hmac secret`."""
    digest = "85a6b157fbaef3a53287c5522d496ccd706aa9b6e703d969fb6088b4d3ba2424"
    assert signature("secret", b"hello", 17) == f"t=17,v1={digest}"


async def test_the_data_matches_the_document(receiver: Receiver) -> None:
    """The data has the document's names and values; NotBefore is empty after the start (M8)."""
    async with subscribed(receiver) as fleet:
        event = await fleet.reboot()
        await wait_until_async(lambda: len(receiver.posts) == 4)
    data = [message.json["data"] for message in receiver.posts]
    first = data[0]
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
    assert [change["EventStatus"] for change in data] == [
        "Scheduled",
        "Scheduled",
        "Started",
        "Ended",
    ]
    assert [change["NotBefore"] for change in data[2:]] == ["", ""]
    assert {change["EventType"] for change in data} == {"Reboot"}
    assert [change["Actor"] for change in data[:3]] == ["operator", "vm", "vm"]


LONE = CreateScope(
    scope="vm",
    kind=ScopeKind.STANDALONE,
    machines=(Machine(name="vm", priority=Priority.SPOT),),
)
PAIR = CreateScope(
    scope="vm",
    kind=ScopeKind.AVAILABILITY_SET,
    machines=(Machine(name="b"), Machine(name="a")),
)


@pytest.mark.parametrize(
    ("scope", "command", "statuses", "event_type"),
    [
        # A recommendation without an impact lapses.
        (LONE, Recommend, ["Scheduled", "Lapsed"], "SpotRebalanceRecommendation"),
        # A failure comes without notice.
        (LONE, Fail, ["Started", "Ended"], "Redeploy"),
        # Resources are the event's machines, in its order.
        (PAIR, Restart, ["Scheduled", "Started", "Ended"], "Reboot"),
    ],
)
async def test_messages_of_other_events(
    receiver: Receiver, scope: CreateScope, command: type[Operate], statuses: list[str],
    event_type: str,
) -> None:  # fmt: skip
    """Each status that the event has gets a message."""
    names = tuple(machine.name for machine in scope.machines)
    async with webhook_fleet() as fleet:
        await fleet.fleet.submit(scope)
        await fleet.fleet.poll("vm")
        await fleet.create(receiver)
        await fleet.fleet.submit(command(scope="vm", operation="o", machines=names))
        await fleet.fleet.advance(3600)
        await wait_until_async(lambda: len(receiver.posts) == len(statuses))
    data = [message.json["data"] for message in receiver.posts]
    assert [change["EventStatus"] for change in data] == statuses
    assert {change["EventType"] for change in data} == {event_type}
    assert [change["Resources"] for change in data] == [list(names)] * len(data)
    assert all(bool(change["NotBefore"]) == (statuses[0] == "Scheduled") for change in data[:1])


async def test_a_cancelled_event(receiver: Receiver) -> None:
    """A cancellation is sent, with the data of the event."""
    async with subscribed(receiver) as fleet:
        event = await fleet.restart()
        await fleet.fleet.submit(Cancel(scope="vm", event=event))
        await wait_until_async(lambda: len(receiver.posts) == 2)
    last = receiver.posts[-1].json
    assert last["type"] == "com.fairwarning.event.cancelled"
    assert last["data"]["EventStatus"] == "Cancelled"
    assert last["data"]["EventType"] == "Reboot"
    assert last["data"]["Why"] == "cancelled by operator"
    assert last["data"]["NotBefore"].endswith("GMT")


@each_store
async def test_a_line_gives_the_same_message_whenever_it_is_sent(store: Store) -> None:
    """A line gives the same message immediately and after a restart, when the event has ended."""
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
    assert [late_post.body for late_post in late.posts[1:]] == [
        early_post.body for early_post in early.posts
    ]


async def test_lines_without_an_announcement(receiver: Receiver) -> None:
    """For journal lines without an announcement, type and NotBefore are null."""
    async with webhook_fleet() as fleet:
        await fleet.create(receiver)
        await fleet.invent(1)
        await wait_until_async(lambda: receiver.posts)
    data = receiver.posts[0].json["data"]
    assert (data["EventType"], data["NotBefore"]) == (None, None)
