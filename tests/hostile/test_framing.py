import pytest

from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.preparation import client_of, connections, hold, prepare, turn
from tests.hostile.probes_frames import END, chunk
from tests.hostile.watch import Watch
from tests.hostile.wire import GOOD, METADATA, POLL, TARGET, Client, approval, get, head, post

LOST = get(target="/nowhere")
BARE = head("GET", TARGET, "Host: localhost")
EXPECT = "Expect: 100-continue"


def statuses(client: Client, count: int) -> list[int]:
    """Of so many answers."""
    return [client.reply().status for _ in range(count)]


@pytest.mark.spec("M12", "M20")
@pytest.mark.parametrize("kind", ["GET", "POST"])
def test_a_request_may_be_cut_anywhere(kind: str) -> None:
    """However a request is cut in two, it is the same request."""
    with EndpointHarness() as it:
        request = POLL if kind == "GET" else post(approval(prepare(it)))
        if kind == "GET":
            prepare(it)
        with client_of(it) as client:
            for cut in range(1, len(request)):
                client.send(request[:cut])
                turn(it)
                assert client.ask(request[cut:]).status == 200, cut


@pytest.mark.spec("M12", "M20")
def test_a_request_may_come_byte_by_byte() -> None:
    """A request in as many pieces as it has bytes is the same request."""
    with EndpointHarness() as it:
        event = prepare(it)
        with client_of(it) as client:
            for byte in POLL + post(approval(event)) + POLL:
                client.send(bytes([byte]))
                turn(it)
            assert statuses(client, 3) == [200, 200, 200]
        assert it.scope("av").events[event].approved_by == "av_0"


@pytest.mark.spec("M20")
@pytest.mark.parametrize("first", ["known", "new"])
def test_fifty_requests_at_once(first: str) -> None:
    """Requests that are sent without waiting are answered in their order."""
    with EndpointHarness() as it:
        event = prepare(it)
        if first == "new":
            it.call(it.server.callers.known.clear)
        round_of_five = [POLL, LOST, post(approval(event)), BARE, POLL]
        with client_of(it) as client:
            client.send(b"".join(round_of_five * 10))
            assert statuses(client, 50) == [200, 404, 200, 400, 200] * 10
            assert client.finish() == []


@pytest.mark.spec("M18", "M20")
def test_requests_behind_a_long_poll_wait_their_turn() -> None:
    """200 requests behind one that is held are answered after it, in their order."""
    with EndpointHarness() as it:
        prepare(it)
        with client_of(it) as client:
            hold(it, client)
            client.send(b"".join([POLL, LOST] * 100))
            turn(it)
            it.freeze("av_0")
            held = client.reply()
            assert (held.status, held.json["DocumentIncarnation"]) == (200, 3)
            assert statuses(client, 200) == [200, 404] * 100


@pytest.mark.spec("M20")
def test_a_client_that_runs_ahead_is_made_to_wait() -> None:
    """Behind a held request no more than one read's worth is taken in; nothing is lost by that."""
    count = 8_000
    with EndpointHarness() as it:
        prepare(it)
        with client_of(it) as client:
            hold(it, client)
            (connection,) = connections(it)
            client.send(POLL * count)
            it.wait_until(lambda: bool(connection._queue))
            turn(it)
            assert connection._queue is not None
            assert len(connection._queue) * len(POLL) < 300_000
            it.freeze("av_0")
            assert statuses(client, 1 + count) == [200] * (1 + count)


@pytest.mark.spec("M20")
def test_many_whole_requests_and_a_half() -> None:
    """What limits one request's head does not count the requests before it."""
    with EndpointHarness() as it:
        prepare(it)
        with client_of(it) as client:
            half = len(POLL) // 2
            client.send(POLL * 200 + POLL[:half])
            assert statuses(client, 200) == [200] * 200
            assert client.ask(POLL[half:]).status == 200


# --- Expect: 100-continue (.NET and curl send it) ---


@pytest.mark.spec("M12")
def test_continue_is_said_before_the_body() -> None:
    """A client that asks whether it may send its body is told so, then answered."""
    with EndpointHarness() as it:
        event = prepare(it)
        whole = post(approval(event), EXPECT)
        start = whole.index(b"\r\n\r\n") + 4
        with client_of(it) as client:
            assert client.ask(whole[:start]).status == 100
            assert client.ask(whole[start:]).status == 200
            assert client.ask(whole).status == 200  # and one that did not wait needs no 100


@pytest.mark.spec("M12")
def test_continue_comes_after_the_answers_before_it() -> None:
    """A 100 belongs to its own request: the answers that are due come first."""
    with EndpointHarness() as it:
        prepare(it)
        with client_of(it) as client:
            client.send(POLL + head("POST", TARGET, *GOOD, EXPECT, "Content-Length: 2"))
            assert statuses(client, 2) == [200, 100]
            assert client.ask(b"{}").status == 400


@pytest.mark.spec("M12", "M17")
@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ((*GOOD, "Content-Length: 65537"), 413),
        ((METADATA, "Content-Length: 10"), 400),
        ((*GOOD, "X-Forwarded-For: ::1", "Content-Length: 10"), 400),
    ],
)
def test_a_body_that_is_not_wanted_is_not_asked_for(lines: tuple[str, ...], status: int) -> None:
    """A request that is refused by its head is refused at once, without a 100."""
    with EndpointHarness() as it:
        prepare(it)
        with client_of(it) as client:
            client.send(head("POST", TARGET, *lines, EXPECT))
            (refusal,) = client.replies()
            assert (refusal.status, refusal.closes) == (status, True)


@pytest.mark.spec("M12")
def test_a_body_in_chunks() -> None:
    """An approval in chunks, each sent by itself, is an approval."""
    with EndpointHarness() as it:
        event = prepare(it)
        body = approval(event)
        with client_of(it) as client:
            client.send(head("POST", TARGET, *GOOD, "Transfer-Encoding: chunked"))
            for at in range(0, len(body), 10):
                client.send(chunk(body[at : at + 10]))
                turn(it)
            assert client.ask(END).status == 200
        assert it.scope("av").events[event].approved_by == "av_0"


# --- How a connection ends ---


@pytest.mark.spec("M20")
@pytest.mark.parametrize(
    ("lines", "version"),
    [
        (("Connection: close",), "HTTP/1.1"),
        (("connection: Keep-Alive, CLOSE",), "HTTP/1.1"),
        ((), "HTTP/1.0"),
        (("Connection: keep-alive",), "HTTP/1.0"),
    ],
)
@pytest.mark.parametrize(
    ("method", "target", "status"),
    [("GET", TARGET, 200), ("GET", "/nowhere", 404), ("POST", TARGET, 400), ("PUT", TARGET, 405)],
)
def test_closing_is_answered_in_kind(
    lines: tuple[str, ...], version: str, method: str, target: str, status: int
) -> None:
    """Whoever says that it is the last, or speaks HTTP/1.0, is told so and closed on."""
    with EndpointHarness() as it:
        prepare(it)
        with client_of(it) as client:
            client.send(head(method, target, *GOOD, *lines, version=version))
            (answer,) = client.replies()
            assert (answer.status, answer.closes) == (status, True)


@pytest.mark.spec("M20")
@pytest.mark.parametrize("first", ["known", "new"])
def test_half_closed_is_still_answered(first: str) -> None:
    """A client that has said all it will is answered, however much is under way."""
    with EndpointHarness() as it:
        event = prepare(it)
        if first == "new":
            it.call(it.server.callers.known.clear)
        with client_of(it) as client:
            client.send((post(approval(event)) + POLL) * 2)
            answers = client.finish()
            assert [answer.status for answer in answers] == [200] * 4


@pytest.mark.spec("M18", "M20")
def test_hanging_up_gives_up_a_long_poll() -> None:
    """Whoever hangs up while a request is held is gone: nothing is kept for them."""
    with EndpointHarness() as it:
        prepare(it)
        with client_of(it) as client:
            hold(it, client)
            assert client.finish() == []
        it.wait_until(lambda: not it.connections and not it.server.counts.held)


@pytest.mark.spec("M18", "M20")
def test_stopping_is_graceful() -> None:
    """A stop answers what is held, closes what is idle, and takes no more."""
    with EndpointHarness() as it:
        prepare(it)
        with client_of(it) as holding, client_of(it) as idle, client_of(it) as halfway:
            hold(it, holding)
            assert idle.ask(POLL).status == 200
            halfway.send(POLL[:20])
            it.run(it.server.stop())
            assert [answer.status for answer in holding.replies()] == [304]
            assert idle.replies() == []
            assert halfway.replies() == []
        with pytest.raises(ConnectionRefusedError):
            it.open("av_0")


@pytest.mark.spec("M20")
def test_many_offers_to_upgrade_at_once() -> None:
    """A thousand requests in one piece that each offer another protocol are plain requests."""
    with EndpointHarness() as it, Watch(it) as watch:
        prepare(it)
        with client_of(it) as client:
            client.send(get("Connection: Upgrade", "Upgrade: h2c") * 1_000)
            assert statuses(client, 1_000) == [200] * 1_000
        assert watch.seen == []
