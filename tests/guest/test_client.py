"""Both clients pass the same tests, against a double of Azure's endpoint."""

import asyncio
import json
import threading
from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from fairwarning import (
    AsyncScheduledEvents,
    Document,
    Phase,
    Refused,
    ScheduledEvents,
    Unavailable,
)
from fairwarning.guest.events import read
from tests.fixtures.waiting import LIMIT_SECONDS
from tests.guest.clients import BOTH, SOON, Client, done, ids, meanwhile
from tests.guest.double import NOT_BEFORE, RESET, Double, Framing, refusal

pytestmark = pytest.mark.spec("G1")


# --- Azure ----------------------------------------------------------------------------------------


@pytest.mark.spec("G7")
@BOTH
@pytest.mark.parametrize("framing", Framing)
def test_however_the_end_of_an_answer_is_told(guest: type[Client], framing: Framing) -> None:
    """By its length, in chunks, by the end of the connection, as in HTTP/1.0: it is read whole."""
    with Double(framing=framing) as azure, guest(azure.url) as client:
        event = azure.announce("vm-1")
        assert ids(client.events()) == [event["EventId"]]
        azure.begin(event)
        assert client.document().events[0].started
        client.approve(event["EventId"])
        assert client.me() == "vm-1"
        azure.end(event)
        assert client.events() == ()


@pytest.mark.spec("G7")
@BOTH
@pytest.mark.parametrize("framing", Framing)
def test_a_large_document(guest: type[Client], framing: Framing) -> None:
    """It does not arrive in one piece, and is read whole all the same."""
    with Double(framing=framing) as azure, guest(azure.url, patience=0) as client:
        for _ in range(1_000):
            azure.announce("vm-1", Description="x" * 300)
        assert len(client.events()) == 1_000


@BOTH
def test_a_note_on_the_way(guest: type[Client]) -> None:
    """To "continue" is no answer yet; the answer is what follows."""
    note, body = b"HTTP/1.1 100 Continue\r\n\r\n", b'{"DocumentIncarnation":5,"Events":[]}'
    with Double() as azure, guest(azure.url, patience=0) as client:
        azure.troubles.append(note + HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert client.document() == Document(5)


@BOTH
@pytest.mark.parametrize("framing", [Framing.LENGTH, Framing.CHUNKED])
def test_a_connection_is_used_again(guest: type[Client], framing: Framing) -> None:
    """Polling for days costs one connection."""
    with Double(framing=framing) as azure, guest(azure.url) as client:
        client.document()
        client.wait(0.1)
        client.me()
        assert len(azure.requests) > 3
        assert azure.connections == 1


@BOTH
def test_a_connection_that_was_closed_meanwhile(guest: type[Client]) -> None:
    """It is made again; nobody notices."""
    with Double() as azure, guest(azure.url, patience=0) as client:
        client.document()
        azure.troubles.append(RESET)
        assert client.document() == Document(1)
        client.close()
        client.close()
        assert client.document() == Document(1)
        assert azure.connections == 3


@pytest.mark.spec("G7")
@BOTH
@pytest.mark.parametrize("strict", [False, True])
def test_polling_where_nothing_is_held(guest: type[Client], strict: bool) -> None:
    """The parameter is ignored or refused: once is enough to know. Then 304 says "the same"."""
    with Double() as azure, guest(azure.url) as client:
        azure.strict = strict
        client.document()
        waiting = meanwhile(client.wait)
        azure.wait_until(requests=8)
        event = azure.announce("vm-1")
        assert ids(done(waiting)) == [event["EventId"]]
        assert sum("wait" in one.query for one in azure.polls) == 1
        assert {one.headers.get("if-none-match") for one in azure.polls} == {None, '"1"'}


@pytest.mark.spec("G7")
@BOTH
def test_polling_where_there_are_no_tags(guest: type[Client]) -> None:
    """The document is read each time, and only another one is news."""
    with Double() as azure, guest(azure.url) as client:
        azure.tagged = False
        client.document()
        waiting = meanwhile(client.wait)
        azure.wait_until(requests=5)
        event = azure.announce("vm-1")
        assert ids(done(waiting)) == [event["EventId"]]
        assert not any("if-none-match" in one.headers for one in azure.polls)


@pytest.mark.spec("G7")
@BOTH
def test_no_more_often_than_it_was_said(guest: type[Client]) -> None:
    """Not even where conditions are not looked at, and every answer is the whole document."""
    with Double() as azure, guest(azure.url, every=0.2) as client:
        azure.conditional = False
        client.document()
        client.wait(1.5)
        assert len(azure.requests) <= 9


@BOTH
def test_dates_in_either_spelling(guest: type[Client]) -> None:
    """One machine's endpoint writes them in another way than its neighbour's."""
    with Double() as azure, guest(azure.url) as client:
        azure.announce("vm-1")
        azure.iso = True
        azure.announce("vm-1")
        when = datetime.fromtimestamp(NOT_BEFORE, UTC)
        assert [event.not_before for event in client.events()] == [when, when]


@BOTH
def test_events_that_nobody_knew_of(guest: type[Client]) -> None:
    """A new type, a date that is missing, a field that is new: all of it is passed on."""
    with Double() as azure, guest(azure.url) as client:
        event = azure.announce("vm-1", EventType="Teleport", Colour="red")
        del event["NotBefore"]
        (found,) = client.events()
        assert (found.type, found.not_before) == ("Teleport", None)


HEAD = b"HTTP/1.1 200 OK\r\n"
TROUBLES = {
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
TROUBLE = pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)


@BOTH
@TROUBLE
def test_trouble_passes(guest: type[Client], trouble: bytes | None) -> None:
    """Whatever comes instead of the first answers, the document comes after it."""
    with Double() as azure, guest(azure.url) as client:
        event = azure.announce("vm-1")
        azure.troubles += [trouble] * 3
        assert ids(client.events()) == [event["EventId"]]
        assert len(azure.requests) >= 4


@BOTH
@TROUBLE
def test_trouble_that_stays(guest: type[Client], trouble: bytes | None) -> None:
    """There is one error for it, with a text, and never a document that was not sent."""
    with Double() as azure, guest(azure.url, patience=0) as client:
        azure.troubles += [trouble] * 9
        for ask in (client.document, lambda: client.wait(0.02)):
            with pytest.raises(Unavailable, match="NoDocument"):
                ask()


@BOTH
@pytest.mark.parametrize("trouble", [*TROUBLES.values(), refusal(200)], ids=[*TROUBLES, "empty"])
def test_what_was_known_stays_known(guest: type[Client], trouble: bytes | None) -> None:
    """Losing the endpoint never means "no events" (IG5)."""
    with Double() as azure, guest(azure.url) as client:
        azure.announce("vm-1")
        known = client.document()
        azure.troubles += [trouble] * 1_000
        assert client.wait(0.03) == known
        azure.troubles.clear()
        assert client.document() == known


@BOTH
def test_an_endpoint_that_is_gone(guest: type[Client]) -> None:
    """Nobody listens any more: what was known stays known, and asking anew is an error."""
    with Double() as azure:
        azure.announce("vm-1")
        client = guest(azure.url, patience=0.05)
        known = client.document()
    with client:
        assert client.wait(0.1) == known
        with pytest.raises(Unavailable):
            client.document()
        with pytest.raises(Unavailable):
            client.approve(known.events[0])


@BOTH
@pytest.mark.parametrize("where", ["http://127.0.0.1:1", "unix:/nowhere/at/all", "http://a..b"])
def test_an_endpoint_that_never_was(guest: type[Client], where: str) -> None:
    """The error is the same, whatever is wrong with the place."""
    with guest(where, patience=0) as client, pytest.raises(Unavailable):
        client.document()


@BOTH
def test_empty_answers_of_an_idle_machine(guest: type[Client]) -> None:
    """Nothing is planned, as far as anybody knows; an event is seen when it comes."""
    with Double() as azure, guest(azure.url) as client:
        azure.troubles += [refusal(200)] * 3
        assert client.document() == Document()
        waiting = meanwhile(client.wait)
        assert done(waiting) == Document(1)


@BOTH
def test_a_first_answer_that_is_slow(guest: type[Client]) -> None:
    """Switching the feature on takes a while; nobody asks a second time meanwhile."""
    with Double() as azure, guest(azure.url) as client:
        with azure.silence():
            waiting = meanwhile(client.document)
            azure.wait_until(requests=1)
        assert done(waiting) == Document(1)
        assert len(azure.requests) == 1


@BOTH
def test_a_limit_on_requests(guest: type[Client]) -> None:
    """Who asks too often is told so, waits as long as it is told, and gets its document."""
    with Double() as azure, guest(azure.url) as client:
        azure.per_second = 5
        for _ in range(7):
            assert client.document() == Document(1)
        assert len(azure.requests) == 8


@BOTH
def test_never_a_proxy(guest: type[Client], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment names, the machine's own endpoint is asked by the machine."""
    with Double() as proxy, Double() as azure:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        with guest(azure.url) as client:
            assert client.document() == Document(1)
            assert client.me() == "vm-1"
        assert proxy.connections == 0
        assert not any("x-forwarded-for" in one.headers for one in azure.requests)


@BOTH
def test_a_counter_that_begins_anew(guest: type[Client]) -> None:
    """A smaller number, or the very same, is no reason to pass a document over."""
    with Double() as azure, guest(azure.url) as client:
        first = azure.announce("vm-1")
        assert ids(client.document()) == [first["EventId"]]
        azure.forget()
        assert client.wait() == Document(1)
        second = azure.announce("vm-2")
        assert azure.incarnation == 2
        assert client.wait().events[0].concerns(second["Resources"][0])


# --- Approving ------------------------------------------------------------------------------------


@pytest.mark.spec("G7")
@BOTH
def test_approving(guest: type[Client]) -> None:
    """One, several, an event or its id, once more: all of it is in order."""
    with Double() as azure, guest(azure.url) as client:
        azure.announce("vm-1")
        azure.announce("vm-2")
        first, second = client.events()
        client.approve(first)
        client.approve(first, second)
        client.approve(second.id)
        client.approve()
        assert azure.approved == [first.id, first.id, second.id, second.id]
        bodies = [json.loads(one.body) for one in azure.requests if one.method == "POST"]
        assert bodies[1] == {"StartRequests": [{"EventId": first.id}, {"EventId": second.id}]}


@BOTH
def test_approving_what_is_not_there(guest: type[Client]) -> None:
    """It is refused with the endpoint's own words, and the client goes on."""
    with Double() as azure, guest(azure.url) as client:
        with pytest.raises(Refused, match="There is no event X"):
            client.approve("X")
        assert client.document() == Document(1)


@BOTH
def test_approving_on_a_connection_that_was_closed(guest: type[Client]) -> None:
    """It is sent again at once, on another."""
    with Double() as azure, guest(azure.url, patience=0) as client:
        event = azure.announce("vm-1")
        client.document()
        azure.troubles.append(RESET)
        client.approve(event["EventId"])
        assert azure.approved == [event["EventId"]]


# --- Watching -------------------------------------------------------------------------------------


@pytest.mark.spec("G7")
@BOTH
def test_watching_an_event(guest: type[Client]) -> None:
    """What is planned already, then each step of its life, then what comes without notice."""
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
        azure.announce("vm-1", EventStatus="Started", NotBefore="")
        assert next(watch).phase is Phase.STARTED


@BOTH
def test_watching_an_event_that_is_cancelled(guest: type[Client]) -> None:
    """It is over, and says that it never started."""
    with Double() as azure, guest(azure.url) as client:
        event = azure.announce("vm-1")
        watch = client.watch()
        next(watch)
        azure.end(event)
        over = next(watch)
        assert (over.phase, over.cancelled, over.event.id) == (
            Phase.OVER,
            True,
            event["EventId"],
        )


@BOTH
def test_watching_through_trouble(guest: type[Client]) -> None:
    """Nothing is over because the endpoint is."""
    with Double() as azure, guest(azure.url) as client:
        event = azure.announce("vm-1")
        watch = client.watch()
        next(watch)
        azure.troubles += [RESET, refusal(410), refusal(200), b"HTTP/1.1 2", refusal(503)]
        azure.begin(event)
        assert next(watch).phase is Phase.STARTED


@BOTH
def test_who_watches_may_look_as_well(guest: type[Client]) -> None:
    """What a handler saw with `events` meanwhile is told to it all the same, and at once."""
    with Double() as azure, guest(azure.url) as client:
        azure.announce("vm-1")
        watch = client.watch()
        next(watch)
        second = azure.announce("vm-2")
        assert len(client.events()) == 2
        seen = len(azure.requests)

        def third() -> None:
            """So that waiting ends, however late."""
            if len(azure.requests) > seen + 20:
                azure.announce("vm-3")
                azure.after = lambda: None

        azure.after = third
        change = next(watch)
        assert (change.phase, change.event.id) == (Phase.SCHEDULED, second["EventId"])
        assert len(azure.events) == 2


# --- Tasks and threads ----------------------------------------------------------------------------


def test_cancelling_at_any_moment() -> None:
    """Before, during and after each step of a request; the next answer is always the right one."""
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


def test_a_watch_that_is_ended() -> None:
    """The generator lets go, and the client goes on."""
    with Double() as azure:
        azure.announce("vm-1")

        async def work() -> None:
            async with AsyncScheduledEvents(azure.url, every=SOON) as client:
                async with aclosing(client.watch()) as watch:
                    async for change in watch:
                        assert change.phase is Phase.SCHEDULED
                        break
                assert len(await client.events()) == 1

        asyncio.run(work())


def test_the_loop_goes_on_meanwhile() -> None:
    """Waiting blocks nobody else."""
    with Double() as azure:

        async def work() -> None:
            async with AsyncScheduledEvents(azure.url, every=SOON) as client:
                with azure.silence():
                    waiting = asyncio.create_task(client.document())
                    await asyncio.to_thread(azure.wait_until, 1)
                    assert not waiting.done()
                assert await waiting == Document(1)

        asyncio.run(work())


def test_a_client_for_each_thread() -> None:
    """They do not know of each other."""
    with Double() as azure:
        azure.announce("vm-1")
        found: list[Document] = []

        def work() -> None:
            with ScheduledEvents(azure.url, every=SOON) as client:
                found.extend(client.document() for _ in range(5))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_SECONDS)
        assert len(found) == 40
        assert len(set(found)) == 1
        assert azure.connections == 8


def test_a_document_of_the_double_is_what_was_sent() -> None:
    """The double and the client agree on what a document is."""
    with Double() as azure, ScheduledEvents(azure.url, every=SOON) as client:
        azure.announce("vm-1")
        sent = json.dumps({"DocumentIncarnation": azure.incarnation, "Events": azure.events})
        assert client.document() == read(sent.encode())
