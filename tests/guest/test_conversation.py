"""The client's protocol in virtual time, with an endpoint that is a single function."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from fairwarning import Document, Event, Refused, Unavailable
from fairwarning.guest import events
from fairwarning.guest.conversation import ConnectionLost, Conversation, Script, Wait
from fairwarning.guest.endpoint import EndpointAddress, endpoint
from fairwarning.guest.session import HttpRequest, HttpResponse
from tests.guest.test_events import ID, OLDEST, body
from tests.guest.test_session import BUSY, EMPTY, IDLE, SAME, query, refusal

pytestmark = pytest.mark.spec("G1")

T = TypeVar("T")
GIVE_UP = 10_000  # steps; no test takes as many
QUIET = ConnectionLost("timed out")
OK = HttpResponse(200, {}, b"")


@dataclass
class Simulation:
    """A clock, and an endpoint that answers a request at a time, after a delay."""

    answer: Callable[[HttpRequest, float], HttpResponse | ConnectionLost] = lambda _, __: BUSY
    now: float = 0.0
    address: EndpointAddress = field(default_factory=lambda: endpoint("http://127.0.0.1:8169"))
    patience: float = 70.0
    requests: list[tuple[float, HttpRequest]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.conversation = Conversation(
            lambda: self.now, self.address, every=1.0, patience=self.patience
        )

    def document(self) -> Document:
        return self.run(self.conversation.document())

    def wait(self, timeout: float | None = None) -> Document:
        return self.run(self.conversation.wait(timeout))

    def first(self, *, waits: bool) -> Document:
        return self.wait() if waits else self.document()

    def approve(self, *events: Event | str, others: bool = True) -> None:
        self.run(self.conversation.approve(events, others=others))

    def own_name(self) -> str:
        return self.run(self.conversation.own_name())

    def run(self, script: Script[T]) -> T:
        """Run a script; pauses and missing responses take virtual time."""
        reply: HttpResponse | ConnectionLost | None = None
        for _ in range(GIVE_UP):
            try:
                step = script.send(reply)
            except StopIteration as done:
                result: T = done.value
                return result
            if isinstance(step, Wait):
                self.now += step.seconds
                reply = None
                continue
            self.requests.append((self.now, step))
            reply = self.answer(step, self.now)
            if reply is QUIET:
                self.now += step.seconds
        raise AssertionError("the script does not end")

    @property
    def times(self) -> list[float]:
        return [when for when, _ in self.requests]


def responding(
    *responses: HttpResponse | ConnectionLost,
) -> Callable[[HttpRequest, float], HttpResponse | ConnectionLost]:
    """Return an endpoint that sends these responses; the last one repeats."""
    left = list(responses)
    return lambda _, __: left.pop(0) if len(left) > 1 else left[0]


# --- The document ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        ConnectionLost("reset"),
        *map(refusal, (404, 408, 425)),
        refusal(410),
        refusal(429),
        refusal(500),
        HttpResponse(200, {}, b"{"),
    ],
)
def test_failures_are_retried(failure: HttpResponse | ConnectionLost) -> None:
    """Retries back off until there is a response."""
    simulation = Simulation(responding(failure, failure, failure, BUSY))
    assert simulation.document() == events.read(BUSY.body)
    assert simulation.times == [0, 1, 3, 7]


@pytest.mark.parametrize(
    "failure", [ConnectionLost("reset"), refusal(410), SAME, HttpResponse(200, {}, b"x")]
)
def test_retries_end_after_patience(failure: HttpResponse | ConnectionLost) -> None:
    """The error is raised then, not before and not much later."""
    simulation = Simulation(responding(failure))
    with pytest.raises(Unavailable) as caught:
        simulation.document()
    assert caught.value.code == "NoDocument"
    assert 60 <= simulation.now <= 70


@pytest.mark.parametrize(
    "ask", [Simulation.document, lambda simulation: simulation.approve("A", others=False)]
)
def test_a_refusal_is_not_retried(ask: Callable[[Simulation], object]) -> None:
    """A retry would not help; the error has the endpoint's text."""
    simulation = Simulation(responding(refusal(400, "no such version")))
    with pytest.raises(Refused, match="no such version"):
        ask(simulation)
    assert len(simulation.requests) == 1


# --- Waiting --------------------------------------------------------------------------------------


def test_waiting_for_a_change() -> None:
    """It returns the first different document, polling once a second."""
    simulation = Simulation(lambda _, now: BUSY if now < 1 else SAME if now < 5 else IDLE)
    simulation.document()
    assert simulation.wait() == Document(1)
    assert simulation.times == [0, 1, 2, 3, 4, 5]


def test_same_incarnation_for_another_document() -> None:
    """The incarnation restarted and reached the same value: the events decide."""
    simulation = Simulation(
        responding(BUSY, HttpResponse(200, {"etag": '"7"'}, body(incarnation=7)))
    )
    simulation.document()
    assert simulation.wait() == Document(7)


@pytest.mark.parametrize("timeout", [0, 0.5, 1, 2.5, 60])
def test_waiting_without_a_change(timeout: float) -> None:
    """It returns the known document at the timeout, not later."""
    simulation = Simulation(lambda request, _: SAME if "If-None-Match" in request.headers else BUSY)
    simulation.document()
    assert simulation.wait(timeout) == events.read(BUSY.body)
    assert timeout <= simulation.now <= timeout + 0.01
    assert len(simulation.requests) <= timeout + 1


@pytest.mark.parametrize(
    "failure", [ConnectionLost("reset"), EMPTY, *map(refusal, (400, 401, 403, 410, 503))]
)
def test_failures_do_not_end_a_wait(failure: HttpResponse | ConnectionLost) -> None:
    """Events stay known (IG5), and later changes are returned."""
    simulation = Simulation(lambda _, now: BUSY if now < 1 else failure if now < 3_600 else IDLE)
    simulation.document()
    assert simulation.wait(600) == events.read(BUSY.body)
    assert simulation.now == 600
    assert simulation.wait() == Document(1)
    assert 3_600 <= simulation.now <= 3_630


def test_refusals_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """Until a document is read again; other failures come and go."""
    simulation = Simulation(lambda _, now: refusal(403, "not you") if 1 <= now < 600 else BUSY)
    simulation.document()
    simulation.wait(500)
    (warning,) = caplog.messages
    assert "sends no document (the response was 403 (not you)); the last one stays" in warning
    simulation.wait(500)
    simulation.answer = responding(refusal(401))
    simulation.wait(10)
    assert len(caplog.messages) == 2


def test_an_outage_is_reported_with_its_end(caplog: pytest.LogCaptureFixture) -> None:
    """One line when it has begun, one with its duration; a single lost response is only counted."""
    caplog.set_level("INFO")
    away = ConnectionLost("refused")
    simulation = Simulation(lambda _, now: away if now == 5 or 10 <= now < 200 else BUSY)
    simulation.document()
    simulation.wait(9)
    assert (caplog.messages, simulation.conversation.failed_reads) == ([], 1)
    simulation.wait(300)
    begin, end = caplog.messages
    assert begin == (
        "http://127.0.0.1:8169 sends no document (there was no response: refused);"
        " the last one stays valid; retrying"
    )
    assert re.search(r"8169 sends documents again, after 3 min \d+ s without one", end)
    requests = [when for when in simulation.times if 10 <= when < 200]
    assert simulation.conversation.failed_reads == 1 + len(requests) > 5


MALFORMED: dict[str, Any] = {**OLDEST, "EventId": "5CAEA225", "Resources": None}


def test_malformed_events_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """Per incarnation, with the id and the reason; the other events are delivered."""
    responses = [HttpResponse(200, {}, body(OLDEST, MALFORMED, incarnation=n)) for n in (8, 8, 9)]
    simulation = Simulation(responding(*responses))
    documents = [simulation.document() for _ in responses]
    assert [[event.id for event in document.events] for document in documents] == 3 * [[ID]]
    assert caplog.messages == [
        f"http://127.0.0.1:8169: a malformed event of document {number} is skipped (id: 5CAEA225):"
        " its Resources are not a list of names"
        for number in (8, 9)
    ]


@pytest.mark.parametrize("malformed", [MALFORMED, None])
def test_a_malformed_event_is_not_over(malformed: object) -> None:
    """Its last known form stays valid until it is readable again or gone (IG5)."""
    known = body({**OLDEST, "EventId": "5CAEA225"}, OLDEST)
    bodies = known, body(OLDEST, malformed), body(malformed), body(OLDEST), body()
    simulation = Simulation(responding(*(HttpResponse(200, {}, sent) for sent in bodies)))
    documents = [simulation.document() for _ in bodies]
    left = {"5CAEA225"} if malformed else {"5CAEA225", ID}
    ids = [{event.id for event in document.events} for document in documents]
    assert ids == [{"5CAEA225", ID}, {"5CAEA225", ID}, left, {ID}, set()]


@pytest.mark.parametrize("status", [401, 403, 405])
@pytest.mark.parametrize("waits", [False, True])
def test_refusals_before_the_first_document(status: int, waits: bool) -> None:
    """They are retried for `patience`; the error has the endpoint's text."""
    simulation = Simulation(
        lambda _, now: refusal(status, "not yet") if now < 60 else BUSY, patience=70
    )
    assert simulation.first(waits=waits).events
    simulation = Simulation(responding(refusal(status, "not you")))
    with pytest.raises(Unavailable, match=rf"{status} \(not you\)"):
        simulation.first(waits=waits)
    assert 60 <= simulation.now <= 70


@pytest.mark.parametrize("before", [[], [ConnectionLost("refused")], [refusal(503)]])
@pytest.mark.parametrize("waits", [False, True])
def test_a_first_response_after_two_minutes(
    before: list[HttpResponse | ConnectionLost], waits: bool
) -> None:
    """Azure's may take so long, also if the request was not the first one that was sent."""
    simulation, left = Simulation(), list(before)

    def slow(request: HttpRequest, _: float) -> HttpResponse | ConnectionLost:
        if left:
            return left.pop()
        simulation.now += min(request.seconds, 125)
        return BUSY if request.seconds >= 125 else ConnectionLost("timed out")

    simulation.answer = slow
    assert simulation.first(waits=waits).events
    assert len(simulation.requests) == len(before) + 1


def test_the_first_contact_fails(caplog: pytest.LogCaptureFixture) -> None:
    """It is given up after `patience`; the log at once, and the error, say why and what to do."""
    simulation = Simulation(responding(ConnectionLost("Connection refused")))
    with pytest.raises(Unavailable) as caught:
        simulation.wait()
    assert simulation.now == 70
    assert str(caught.value) == (
        "NoDocument: no document from http://127.0.0.1:8169; last time there was no response: "
        "Connection refused; check that the service runs and that this is the URL of a machine"
    )
    (warning,) = caplog.messages
    assert warning.startswith("no document from http://127.0.0.1:8169 (there was no response: ")
    assert "; trying for 70 s more; check that the service runs" in warning


def test_the_first_contact_with_azures_address_fails() -> None:
    """The error names the variable that another endpoint needs."""
    simulation = Simulation(responding(QUIET), address=endpoint("http://169.254.169.254"))
    with pytest.raises(Unavailable) as caught:
        simulation.wait()
    assert "no document from http://169.254.169.254; last time" in caught.value.message
    assert "outside Azure, set FAIRWARNING_ENDPOINT to the URL of a machine" in caught.value.message


@pytest.mark.parametrize("failure", [ConnectionLost("refused"), QUIET])
def test_waiting_without_a_document(failure: ConnectionLost) -> None:
    """The timeout raises an error; "no events" is never assumed."""
    simulation = Simulation(responding(failure))
    with pytest.raises(Unavailable, match=failure.reason):
        simulation.wait(20)
    assert 20 <= simulation.now <= 20 + 2


# --- Long polls -----------------------------------------------------------------------------------


def test_long_polls() -> None:
    """One request lasts thirty seconds; the next follows at once."""
    simulation = Simulation()

    def endpoint(request: HttpRequest, now: float) -> HttpResponse:
        simulation.now += min(float(query(request).get("wait", 0)), max(0.0, 100 - now))
        if simulation.now >= 100:
            return IDLE
        return SAME if "If-None-Match" in request.headers else BUSY

    simulation.answer = endpoint
    simulation.document()
    assert simulation.wait() == Document(1)
    assert simulation.now == 100
    assert simulation.times == [0, 1, 31, 61, 91]


@pytest.mark.parametrize("timeout", [1, 2.5, 5, 31, 100])
def test_a_long_poll_ends_at_the_timeout(timeout: float) -> None:
    """The wait ends at the timeout, however long the pause before the request was."""
    simulation = Simulation()

    def endpoint(request: HttpRequest, _: float) -> HttpResponse:
        simulation.now += float(query(request).get("wait", 0))
        return SAME if "If-None-Match" in request.headers else BUSY

    simulation.answer = endpoint
    simulation.document()
    assert simulation.wait(timeout) == events.read(BUSY.body)
    assert timeout <= simulation.now <= timeout + 0.01


@pytest.mark.spec("G7")
@pytest.mark.parametrize(
    "to_wait", [SAME, refusal(400, "unknown parameter")], ids=["ignored", "refused"]
)
def test_missing_long_poll_support_is_detected_once(to_wait: HttpResponse) -> None:
    """From then on it is polled once a second, without the parameter."""

    def endpoint(request: HttpRequest, _: float) -> HttpResponse:
        if "wait" in query(request):
            return to_wait
        return SAME if "If-None-Match" in request.headers else BUSY

    simulation = Simulation(endpoint)
    simulation.document()
    simulation.wait(20.5)
    assert sum("wait" in query(request) for _, request in simulation.requests) == 1
    assert simulation.times == list(range(21))


# --- Approvals and the own name -------------------------------------------------------------------


def test_an_approval_is_one_request() -> None:
    """It does not wait for the interval, since there may be little time."""
    simulation = Simulation(lambda request, _: OK if request.method == "POST" else BUSY)
    simulation.document()
    simulation.approve("A", "B")
    (_, (when, request)) = simulation.requests
    assert when == 0
    assert [item["EventId"] for item in json.loads(request.body)["StartRequests"]] == ["A", "B"]


def test_an_approval_is_retried() -> None:
    """It is sent again unchanged, which is safe if it arrived before."""
    simulation = Simulation(
        responding(ConnectionLost("reset"), refusal(410), refusal(429, retry_after="7"), OK)
    )
    simulation.approve("A")
    assert simulation.times == [0, 1, 3, 10]
    assert len({request.body for _, request in simulation.requests}) == 1


@pytest.mark.parametrize(
    "failure",
    [ConnectionLost("reset"), refusal(403), refusal(503), refusal(429, retry_after="300")],
)
def test_an_approval_that_cannot_be_sent(failure: HttpResponse | ConnectionLost) -> None:
    """After the patience, an error says that it may not have arrived."""
    simulation = Simulation(responding(failure))
    with pytest.raises(Unavailable) as caught:
        simulation.approve("A")
    assert caught.value.code == "NoAnswer"
    assert simulation.now <= 70


@pytest.mark.spec("G3")
def test_the_name_may_take_as_long_as_the_first_document() -> None:
    """It may be the first request; after any response the usual timeout holds."""
    simulation = Simulation(responding(refusal(503), HttpResponse(200, {}, b"web_0")))
    assert simulation.own_name() == "web_0"
    assert [request.seconds for _, request in simulation.requests] == [130, 130]
    simulation = Simulation(responding(BUSY, HttpResponse(200, {}, b"web_0")))
    simulation.document()
    simulation.own_name()
    assert [request.seconds for _, request in simulation.requests] == [130, 10]


@pytest.mark.spec("G3")
@pytest.mark.parametrize(
    ("answer", "code", "seconds"),
    [(refusal(404), "NoName", 0), (refusal(503), "NoAnswer", 5), (QUIET, "NoAnswer", 5)],
)
def test_an_approval_without_instance_metadata(
    answer: HttpResponse | ConnectionLost, code: str, seconds: float
) -> None:
    """It fails within a part of the shortest notice; the error says what to pass."""
    simulation = Simulation(lambda request, _: answer if "instance" in request.path else BUSY)
    (event,) = simulation.document().events
    with pytest.raises(Unavailable) as caught:
        simulation.approve(event, others=False)
    assert caught.value.code == code
    assert ("ScheduledEvents(name=...)" in caught.value.message) == (answer is not QUIET)
    assert simulation.now <= seconds


@pytest.mark.spec("G3")
@pytest.mark.parametrize(
    "sent", [b"x" * 2_000, b"", b" \n", b"\x00\x07\x1b{}\x1f", b"\xff\xfe", None]
)
def test_own_name_is_read_once(sent: bytes | None) -> None:
    """An empty or invalid name is retried like any failure; a machine does not change its name."""
    failure = refusal(500) if sent is None else HttpResponse(200, {}, sent)
    simulation = Simulation(responding(failure, HttpResponse(200, {}, b"web_0\n")))
    assert simulation.own_name() == "web_0"
    assert simulation.own_name() == "web_0"
    assert simulation.times == [0, 1]
