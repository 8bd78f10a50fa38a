import pytest

from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.preparation import HELD, Watch, connect, connections, hold, prepare, run_loop
from tests.hostile.wire import GOOD, METADATA, POLL, TARGET, Client, approval, get, head, post

LOST = get(target="/nowhere")
BARE = head("GET", TARGET, "Host: localhost")
EXPECT = "Expect: 100-continue"


def statuses(client: Client, count: int) -> list[int]:
    """Return the statuses of this many responses."""
    return [client.reply().status for _ in range(count)]


@pytest.mark.spec("M12", "M20")
@pytest.mark.parametrize("kind", ["GET", "POST"])
def test_a_request_may_be_split_anywhere(endpoint: EndpointHarness, kind: str) -> None:
    """A request in two pieces is the same request."""
    request = POLL if kind == "GET" else post(approval(prepare(endpoint)))
    if kind == "GET":
        prepare(endpoint)
    with connect(endpoint) as client:
        for cut in range(1, len(request)):
            client.send(request[:cut])
            run_loop(endpoint)
            assert client.request(request[cut:]).status == 200, cut


@pytest.mark.spec("M20")
@pytest.mark.parametrize("first", ["known", "new"])
def test_fifty_pipelined_requests(endpoint: EndpointHarness, first: str) -> None:
    """They are answered in order."""
    event = prepare(endpoint)
    if first == "new":
        endpoint.call(endpoint.server.callers.known.clear)
    round_of_five = [POLL, LOST, post(approval(event)), BARE, POLL]
    with connect(endpoint) as client:
        client.send(b"".join(round_of_five * 10))
        assert statuses(client, 50) == [200, 404, 200, 400, 200] * 10
        assert client.finish() == []


@pytest.mark.spec("M18", "M20")
@pytest.mark.parametrize("together", [False, True], ids=["later", "in one packet"])
def test_requests_behind_a_long_poll_wait(endpoint: EndpointHarness, together: bool) -> None:
    """200 requests behind a held one are answered after it, in order; also of a new caller."""
    prepare(endpoint)
    if together:
        endpoint.call(endpoint.server.callers.known.clear)
    more = b"".join([POLL, LOST] * 100)
    with connect(endpoint) as client:
        hold(endpoint, client, HELD + more if together else HELD)
        if not together:
            client.send(more)
        run_loop(endpoint)
        endpoint.freeze("av_0")
        held = client.reply()
        assert (held.status, held.json["DocumentIncarnation"]) == (200, 3)
        assert statuses(client, 200) == [200, 404] * 100


@pytest.mark.spec("M20")
def test_back_pressure_behind_a_long_poll() -> None:
    """Behind a held request, at most one read is buffered; nothing is lost."""
    count = 8_000
    with EndpointHarness() as endpoint:
        prepare(endpoint)
        with connect(endpoint) as client:
            hold(endpoint, client)
            (connection,) = connections(endpoint)
            client.send(POLL * count)
            endpoint.wait_until(lambda: bool(connection._queue))
            run_loop(endpoint)
            assert connection._queue is not None
            assert len(connection._queue) * len(POLL) < 300_000
            endpoint.freeze("av_0")
            assert statuses(client, 1 + count) == [200] * (1 + count)


@pytest.mark.spec("M20")
def test_many_requests_and_a_partial_one(endpoint: EndpointHarness) -> None:
    """The head limit of a request does not count the requests before it."""
    prepare(endpoint)
    with connect(endpoint) as client:
        half = len(POLL) // 2
        client.send(POLL * 200 + POLL[:half])
        assert statuses(client, 200) == [200] * 200
        assert client.request(POLL[half:]).status == 200


# --- Expect: 100-continue (.NET and curl send it) ---


@pytest.mark.spec("M12")
def test_continue_comes_after_earlier_responses(endpoint: EndpointHarness) -> None:
    """Responses to earlier requests precede the 100."""
    prepare(endpoint)
    with connect(endpoint) as client:
        client.send(POLL + head("POST", TARGET, *GOOD, EXPECT, "Content-Length: 2"))
        assert statuses(client, 2) == [200, 100]
        assert client.request(b"{}").status == 400


@pytest.mark.spec("M12", "M17")
@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ((*GOOD, "Content-Length: 65537"), 413),
        ((METADATA, "Content-Length: 10"), 400),
        ((*GOOD, "X-Forwarded-For: ::1", "Content-Length: 10"), 400),
    ],
)
def test_no_continue_for_a_refused_head(
    endpoint: EndpointHarness, lines: tuple[str, ...], status: int
) -> None:
    """A request with a bad head is refused at once, without a 100."""
    prepare(endpoint)
    with connect(endpoint) as client:
        client.send(head("POST", TARGET, *lines, EXPECT))
        (refusal,) = client.replies()
        assert (refusal.status, refusal.closes) == (status, True)


# --- Closing ---


@pytest.mark.spec("M20")
@pytest.mark.parametrize("first", ["known", "new"])
def test_a_half_closed_client_is_answered(endpoint: EndpointHarness, first: str) -> None:
    """All its requests in progress are answered."""
    event = prepare(endpoint)
    if first == "new":
        endpoint.call(endpoint.server.callers.known.clear)
    with connect(endpoint) as client:
        client.send((post(approval(event)) + POLL) * 2)
        replies = client.finish()
        assert [reply.status for reply in replies] == [200] * 4


@pytest.mark.spec("M18", "M20")
def test_graceful_stop(endpoint: EndpointHarness) -> None:
    """A stop answers held requests, closes idle connections, and accepts no more."""
    prepare(endpoint)
    with (
        connect(endpoint) as holding,
        connect(endpoint) as idle,
        connect(endpoint) as halfway,
    ):
        hold(endpoint, holding)
        assert idle.request(POLL).status == 200
        halfway.send(POLL[:20])
        endpoint.run(endpoint.server.stop())
        assert [reply.status for reply in holding.replies()] == [304]
        assert idle.replies() == []
        assert halfway.replies() == []
    with pytest.raises(ConnectionRefusedError):
        endpoint.open("av_0")


@pytest.mark.spec("M20")
def test_many_upgrade_offers_at_once() -> None:
    """A thousand pipelined requests that each offer an upgrade are normal requests."""
    with EndpointHarness() as endpoint, Watch(endpoint) as watch:
        prepare(endpoint)
        with connect(endpoint) as client:
            client.send(get("Connection: Upgrade", "Upgrade: h2c") * 1_000)
            assert statuses(client, 1_000) == [200] * 1_000
        assert watch.seen == []
