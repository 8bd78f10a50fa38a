"""Tests of both clients against a double of Azure's endpoint."""

import asyncio
import json
import os

import pytest

from fairwarning import AsyncScheduledEvents, Document, Phase, Refused, Unavailable
from fairwarning.guest import aio, transport
from tests.fixtures.programs import run_python
from tests.guest.clients import BOTH, SOON, Client, ids, in_background, result_of
from tests.guest.double import RESET, Double, Framing, refusal

pytestmark = pytest.mark.spec("G1")


# --- Azure ----------------------------------------------------------------------------------------


@pytest.mark.spec("G7")
@BOTH
@pytest.mark.parametrize("framing", Framing)
def test_response_framing(guest: type[Client], framing: Framing) -> None:
    """Content-Length, chunks, closing and HTTP/1.0: the response is read completely."""
    with Double(framing=framing) as azure, guest(azure.url) as client:
        event = azure.announce("vm-1")
        assert ids(client.events()) == [event["EventId"]]
        azure.begin(event)
        assert client.document().events[0].started
        client.approve(event["EventId"])
        assert client.me() == "vm-1"
        azure.end(event)
        assert client.events() == ()


@BOTH
@pytest.mark.parametrize("framing", [Framing.LENGTH, Framing.CHUNKED])
def test_a_connection_is_used_again(guest: type[Client], framing: Framing) -> None:
    """Polling for days uses one connection."""
    with Double(framing=framing) as azure, guest(azure.url) as client:
        client.document()
        client.wait(0.1)
        client.me()
        assert len(azure.requests) >= 3
        assert azure.connections == 1


@BOTH
def test_a_closed_idle_connection(guest: type[Client]) -> None:
    """The client reconnects without an error."""
    with Double() as azure, guest(azure.url, patience=0) as client:
        client.document()
        azure.failures.append(RESET)
        assert client.document() == Document(1)
        client.close()
        client.close()
        assert client.document() == Document(1)
        assert azure.connections == 3


@BOTH
def test_bytes_after_a_response(guest: type[Client], monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not read as the next response, although they arrive after the first one."""
    body = b'{"DocumentIncarnation":5,"Events":[]}'
    sent = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    for module in (transport, aio):
        monkeypatch.setattr(module, "RECEIVE_BYTES", len(sent))
    with Double() as azure, guest(azure.url, patience=0) as client:
        azure.failures.append(sent + HEAD)
        assert client.document() == Document(5)
        assert client.document() == Document(1)


@pytest.mark.spec("G7")
@BOTH
@pytest.mark.parametrize("strict", [False, True])
def test_polling_without_long_polls(guest: type[Client], strict: bool) -> None:
    """The client tries `wait` once, then polls; 304 means unchanged."""
    with Double() as azure, guest(azure.url) as client:
        azure.strict = strict
        client.document()
        waiting = in_background(client.wait)
        azure.wait_until(requests=8)
        event = azure.announce("vm-1")
        assert ids(result_of(waiting)) == [event["EventId"]]
        assert sum("wait" in request.query for request in azure.polls) == 1
        assert {request.headers.get("if-none-match") for request in azure.polls} == {None, '"1"'}


HEAD = b"HTTP/1.1 200 OK\r\n"
FAILURES = {
    "404": refusal(404),
    "410": refusal(410),
    "429": refusal(429, error="Too many"),
    "500": refusal(500),
    "reset": RESET,
    "half a document": HEAD + b'Content-Length: 50\r\n\r\n{"Docu',
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n50\r\n{",
    "no chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "half a head": b"HTTP/1.1 200 O",
    "no HTTP": b"220 mail.example ESMTP\r\n\r\n",
    "no status": b"HTTP/1.1 okay\r\n\r\n",
    "garbage": b"\x16\x03\x01\x00\xff" * 9 + b"\r\n\r\n",
    "long line": HEAD + b"X: " + b"x" * 100_000 + b"\r\n\r\n",
    "many headers": HEAD + b"X: x\r\n" * 5_000 + b"\r\n",
    "control characters": HEAD + b"Content-Length: 6\r\n\r\n\x00\x07\x1b{}\x1f",
    "a page": HEAD + b"Content-Length: 6\r\n\r\n<html>",
}


@BOTH
@pytest.mark.parametrize("failure", [*FAILURES.values(), refusal(200)], ids=[*FAILURES, "empty"])
def test_failures(guest: type[Client], failure: bytes | None) -> None:
    """The document is read after them, and losing the endpoint never means "no events" (IG5)."""
    with Double() as azure, guest(azure.url) as client:
        event = azure.announce("vm-1")
        if failure != refusal(200):  # which an idle machine of Azure sends
            azure.failures += [failure] * 3
        known = client.document()
        assert ids(known) == [event["EventId"]]
        azure.failures += [failure] * 1_000
        assert client.wait(0.03) == known
        azure.failures.clear()
        assert client.document() == known


@BOTH
@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "unix:/nowhere/at/all", "http://a..b"])
def test_an_endpoint_that_does_not_exist(guest: type[Client], url: str) -> None:
    """The error is the same for every kind of wrong address."""
    with guest(url, patience=0) as client, pytest.raises(Unavailable):
        client.document()


@BOTH
def test_proxies_are_ignored(guest: type[Client], monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxy variables are ignored for the machine's own endpoint."""
    with Double() as proxy, Double() as azure:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        with guest(azure.url) as client:
            assert client.document() == Document(1)
            assert client.me() == "vm-1"
        assert proxy.connections == 0
        assert not any("x-forwarded-for" in request.headers for request in azure.requests)


# --- Approving ------------------------------------------------------------------------------------


@pytest.mark.spec("G7")
@BOTH
def test_approving(guest: type[Client]) -> None:
    """One event, several, an event or its id, and again: all are accepted."""
    with Double() as azure, guest(azure.url) as client:
        azure.announce("vm-1")
        azure.announce("vm-2")
        first, second = client.events()
        client.approve(first)
        client.approve(first, second, others=True)
        client.approve(second.id, others=True)
        client.approve()
        assert azure.approved == [first.id, first.id, second.id, second.id]
        bodies = [
            json.loads(request.body) for request in azure.requests if request.method == "POST"
        ]
        assert bodies[1] == {"StartRequests": [{"EventId": first.id}, {"EventId": second.id}]}


@BOTH
@pytest.mark.parametrize("by_id", [False, True])
def test_an_event_of_other_machines(guest: type[Client], by_id: bool) -> None:
    """It is refused with the reason, and nothing is sent, unless the caller agrees with them."""
    with Double() as azure, guest(azure.url) as client:
        azure.announce("vm-1")
        azure.announce("vm-1", "vm-2")
        own, shared = client.events()
        with pytest.raises(Refused, match="names vm-1, vm-2, and this is vm-1") as caught:
            client.approve(own, shared.id.lower() if by_id else shared)
        assert caught.value.code == "OtherMachines"
        assert "others=True" in caught.value.message
        assert azure.approved == []
        client.approve(shared, others=True)
        assert azure.approved == [shared.id]


@BOTH
@pytest.mark.parametrize("reads", [False, True])
def test_an_id_that_was_not_read(guest: type[Client], reads: bool) -> None:
    """The document says whether the event names other machines; a malformed one does not."""
    with Double() as azure, guest(azure.url) as client:
        if reads:
            assert client.events() == ()
        own, shared = azure.announce("vm-1"), azure.announce("vm-1", "vm-2")
        unknown = azure.announce(Resources=None)
        client.approve(own["EventId"])
        for event, code in ((shared, "OtherMachines"), (unknown, "UnknownEvent")):
            with pytest.raises(Refused) as caught:
                client.approve(event["EventId"])
            assert caught.value.code == code
        assert azure.approved == [own["EventId"]]


@BOTH
def test_the_name_can_be_given(guest: type[Client]) -> None:
    """Then an endpoint without instance metadata is enough."""
    with Double(name="") as azure, guest(azure.url, name="VM-1", patience=0) as client:
        azure.announce("vm-1")
        (event,) = client.events()
        client.approve(event)
        assert azure.approved == [event.id]
        assert client.me() == "VM-1"


@BOTH
@pytest.mark.parametrize("every", [-1, float("nan"), float("inf")])
def test_an_invalid_interval(guest: type[Client], every: float) -> None:
    """The client would poll without a pause, or never."""
    with pytest.raises(ValueError, match="every: must be a number of seconds from 0 to 86400"):
        guest("http://127.0.0.1:1", every=every)


# --- Watching -------------------------------------------------------------------------------------


@pytest.mark.spec("G7")
@BOTH
def test_watching_an_event(guest: type[Client]) -> None:
    """Existing events come first, then each change, then events without notice or start."""
    with Double() as azure, guest(azure.url) as client:
        event = azure.announce("vm-1")
        watch = client.watch()
        assert next(watch).phase is Phase.SCHEDULED
        moved = {**event, "NotBefore": "2031-01-01T00:00:00Z"}
        azure.events, azure.incarnation = [moved], azure.incarnation + 1
        assert next(watch).phase is Phase.CHANGED
        azure.begin(moved)
        assert next(watch).phase is Phase.STARTED
        azure.end(event)
        over = next(watch)
        assert (over.phase, over.cancelled) == (Phase.OVER, False)
        sudden = azure.announce("vm-1", EventStatus="Started", NotBefore="")
        assert next(watch).phase is Phase.STARTED
        azure.end(sudden)
        next(watch)
        cancelled = azure.announce("vm-1")
        next(watch)
        azure.end(cancelled)
        over = next(watch)
        assert (over.cancelled, over.event.id) == (True, cancelled["EventId"])


@BOTH
def test_reading_events_while_watching(guest: type[Client]) -> None:
    """A change that a handler saw with `events` is still reported, and at once."""
    with Double() as azure, guest(azure.url) as client:
        azure.announce("vm-1")
        watch = client.watch()
        next(watch)
        second = azure.announce("vm-2")
        assert len(client.events()) == 2
        seen = len(azure.requests)

        def third() -> None:
            """Let the wait end in any case."""
            if len(azure.requests) > seen + 20:
                azure.announce("vm-3")
                azure.after = lambda: None

        azure.after = third
        change = next(watch)
        assert (change.phase, change.event.id) == (Phase.SCHEDULED, second["EventId"])
        assert len(azure.events) == 2


# --- Tasks and threads ----------------------------------------------------------------------------


def test_cancelling_at_any_moment() -> None:
    """Before, during and after each step of a request, the next response is the right one."""
    with Double() as azure:
        azure.announce("vm-1")

        async def work() -> None:
            async with AsyncScheduledEvents(azure.url, every=0) as client:
                known = await client.document()
                for steps in range(30):
                    task = asyncio.create_task(client.document() if steps % 2 else client.wait())
                    for _ in range(steps):
                        await asyncio.sleep(0)
                    task.cancel()
                    await asyncio.wait([task])
                    assert await client.me() == "vm-1"
                    assert await client.document() == known

        asyncio.run(work())


def test_waiting_does_not_block_the_loop() -> None:
    """Other tasks run while the client waits."""
    with Double() as azure:

        async def work() -> None:
            async with AsyncScheduledEvents(azure.url, every=SOON) as client:
                with azure.silence():
                    waiting = asyncio.create_task(client.document())
                    await asyncio.to_thread(azure.wait_until, 1)
                    assert not waiting.done()
                assert await waiting == Document(1)

        asyncio.run(work())


FORKED = """
import os, sys
from fairwarning import ScheduledEvents, AsyncScheduledEvents
kind, url = sys.argv[1:]
if kind == "Plain":
    client = ScheduledEvents(url, every=0)
    read = client.document
else:
    import asyncio
    client, loop = AsyncScheduledEvents(url, every=0), asyncio.new_event_loop()
    read = lambda: loop.run_until_complete(client.document())
read()
child = os.fork()
if child:
    os.waitpid(child, 0)
elif kind != "Plain":
    loop = asyncio.new_event_loop()
read()
read()
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@BOTH
def test_a_forked_client(guest: type[Client]) -> None:
    """The child opens its own connection: with a shared one, each might read the other's answer."""
    with Double() as azure:
        run_python(FORKED, guest.__name__, azure.url, check=True)
        assert [request.connection for request in azure.requests] == [1, 2, 2, 1, 1]
