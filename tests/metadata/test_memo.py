"""Requests known by heart: answered as the first time, for whoever asks (M1, M16, M22)."""

import pytest

from fairwarning.core.commands import Deallocate
from fairwarning.metadata.request_cache import MEMO_REQUESTS
from tests.fixtures.endpoint import EVENTS, EndpointHarness, approval, raw_request, read_all

POLL = f"{EVENTS}?api-version=2020-07-01"
NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"


def _send(endpoint: EndpointHarness, machine: str, *sent: bytes) -> list[bytes]:
    """Send each on one connection, the next when the one before is answered; the answers."""
    answers = []
    with endpoint.open(machine) as client:
        for one in sent:
            client.sendall(one)
            answers.append(client.recv(65536))
    return answers


def _remembered(endpoint: EndpointHarness) -> int:
    return endpoint.call(lambda: len(endpoint.server.memo.known))


@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    "sent",
    [
        raw_request(POLL),
        raw_request(f"{EVENTS}?api-version=2017-03-01"),
        raw_request(POLL, "Connection: keep-alive", "User-Agent: x"),
        raw_request(POLL, 'If-None-Match: "2"'),
        raw_request(POLL, 'If-None-Match: "1"'),
        raw_request(NAME),
        raw_request("/metadata/versions"),
    ],
)
def test_the_second_time_is_as_the_first(sent: bytes) -> None:
    """Byte by byte, on the same connection and on another."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        endpoint.get("db_0")
        endpoint.restart("db_0")
        before = _remembered(endpoint)
        answers = _send(endpoint, "db_0", sent, sent, sent) + _send(endpoint, "db_0", sent)
        assert _remembered(endpoint) == before + 1
        assert len(set(answers)) == 1


@pytest.mark.spec("M1", "M20")
def test_closing_by_heart() -> None:
    """A request that asks to close is closed each time; one that does not, never."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        plain = _send(endpoint, "db_0", raw_request(POLL), raw_request(POLL))
        answers = []
        for _ in range(3):
            with endpoint.open("db_0") as client:
                client.sendall(raw_request(POLL, "Connection: close"))
                answers.append(read_all(client))
        assert len(set(answers)) == 1
        assert b"\r\nConnection: close\r\n" in answers[0]
        assert _send(endpoint, "db_0", raw_request(POLL), raw_request(POLL)) == plain
        assert b"Connection" not in plain[0]


@pytest.mark.spec("M16", "M22")
def test_identical_bytes_of_two_machines() -> None:
    """Each gets its own document: who asks is no part of what is remembered."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        endpoint.make("web", 2)
        for machine in ("db_0", "web_0"):
            endpoint.get(machine)
        events = {"db_0": endpoint.restart("db_0").id, "web_0": endpoint.restart("web_1").id}
        sent = raw_request(POLL)
        for _ in range(3):
            for machine, event in events.items():
                (answer,) = _send(endpoint, machine, sent)
                assert event.encode() in answer
                assert sum(other.encode() in answer for other in events.values()) == 1
        for machine in ("db_0", "web_0", "web_1", "db_0"):
            (answer,) = _send(endpoint, machine, raw_request(NAME))
            assert answer.endswith(b"\r\n\r\n" + machine.encode())


@pytest.mark.spec("M22")
def test_what_is_remembered_opens_nothing_for_a_stranger() -> None:
    """The same bytes from where no machine is: 404."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        sent = raw_request(POLL)
        _send(endpoint, "db_0", sent, sent)
        endpoint._addresses["nobody"] = "127.0.0.1"
        assert all(
            answer.startswith(b"HTTP/1.1 404 ") for answer in _send(endpoint, "nobody", sent, sent)
        )


@pytest.mark.spec("M1", "M11")
def test_a_change_is_seen_with_the_next_poll() -> None:
    """A connection that polls by heart sees each change as soon as it is made."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        sent = raw_request(POLL)
        with endpoint.open("db_0") as client:

            def incarnation() -> int:
                client.sendall(sent)
                body = client.recv(65536).partition(b"\r\n\r\n")[2]
                return int(body.split(b",")[0].partition(b":")[2])

            seen = [incarnation(), incarnation()]
            event = endpoint.restart("db_0")
            seen += [incarnation(), incarnation()]
            endpoint.approve("db_0", event.id)
            seen.append(incarnation())
            endpoint.advance(60)
            seen += [incarnation(), incarnation()]
        assert seen == [1, 1, 2, 2, 3, 4, 4]


@pytest.mark.spec("M22")
def test_a_machine_that_was_switched_off() -> None:
    """Its requests are as well known as ever, and are refused."""
    with EndpointHarness() as endpoint:
        endpoint.make("db", 2)
        sent = raw_request(POLL)
        assert _send(endpoint, "db_0", sent, sent)[1].startswith(b"HTTP/1.1 200 ")
        endpoint.do(Deallocate(scope="db", operation="off", machines=("db_0",)))
        endpoint.advance(60)
        assert all(
            answer.startswith(b"HTTP/1.1 404 ") for answer in _send(endpoint, "db_0", sent, sent)
        )
        assert _send(endpoint, "db_1", sent)[0].startswith(b"HTTP/1.1 200 ")


@pytest.mark.spec("M1", "M16")
def test_more_than_can_be_remembered() -> None:
    """The memory is bounded; once it is full, every answer is still right."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        endpoint.make("web")
        endpoint.get("db_0"), endpoint.get("web_0")
        event = endpoint.restart("db_0").id.encode()
        many = [raw_request(f"{POLL}&n={n}") for n in range(MEMO_REQUESTS + 50)]
        answers = _send(endpoint, "db_0", *many, *many[:10], *many[-10:])
        assert 0 < _remembered(endpoint) <= MEMO_REQUESTS == 1024
        assert len(set(answers)) == 1
        assert event in answers[0]
        assert b'"Events":[]' in _send(endpoint, "web_0", many[-1])[0]


@pytest.mark.spec("M3", "M4", "M5", "M17")
@pytest.mark.parametrize(
    "sent",
    [
        raw_request(EVENTS),
        raw_request(f"{EVENTS}?api-version=2031-01-01"),
        raw_request(POLL, "X-Forwarded-For: 10.0.0.1"),
        raw_request(POLL).replace(b"Metadata: true", b"Metadata: false"),
        raw_request(POLL, method="PUT"),
        raw_request(POLL, method="POST"),
        raw_request("/nowhere"),
        raw_request(POLL, "Host: 127.0.0.1"),
        raw_request(f"{POLL}&wait=x"),
    ],
)
def test_a_refused_request_is_never_remembered(sent: bytes) -> None:
    """It goes through every check each time, and is refused each time."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        endpoint.get("db_0")
        before = _remembered(endpoint)
        answers = _send(endpoint, "db_0", sent, sent, raw_request(POLL), sent)
        assert {answers[n].split(b" ")[1][:1] for n in (0, 1, 3)} == {b"4"}
        assert answers[2].startswith(b"HTTP/1.1 200 ")
        assert _remembered(endpoint) == before + 1


@pytest.mark.spec("M12")
def test_an_approval_is_never_remembered() -> None:
    """What changes something is done each time it is asked for."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        endpoint.get("db_0")
        before = _remembered(endpoint)
        for _ in range(2):
            body = approval(endpoint.restart("db_0").id)
            head = raw_request(POLL, f"Content-Length: {len(body)}", method="POST")
            (answer,) = _send(endpoint, "db_0", head + body.encode())
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert endpoint.get("db_0").json["Events"][0]["EventStatus"] == "Started"
            endpoint.advance(60)
        assert _remembered(endpoint) == before


@pytest.mark.spec("M20")
def test_requests_that_are_no_whole_are_not_remembered() -> None:
    """Half a request, or one and a half, is not taken for one the next time."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        endpoint.get("db_0")
        before = _remembered(endpoint)
        sent = raw_request(POLL)
        with endpoint.open("db_0") as client:
            for _ in range(2):
                client.sendall(sent + sent[:20])
                assert client.recv(65536).count(b"HTTP/1.1 200 ") == 1
                client.sendall(sent[20:])
                assert client.recv(65536).count(b"HTTP/1.1 200 ") == 1
        assert _remembered(endpoint) == before
