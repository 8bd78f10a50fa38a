"""What a client does step by step, in fake time and with an endpoint made of one function."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import pytest

from fairwarning import Document, Refused, Unavailable
from fairwarning.guest import events
from fairwarning.guest.conversation import ConnectionLost, Conversation, Script, Wait
from fairwarning.guest.session import HttpRequest, HttpResponse
from tests.guest.test_events import body
from tests.guest.test_session import BUSY, EMPTY, IDLE, SAME, query, refusal

pytestmark = pytest.mark.spec("G1")

T = TypeVar("T")
GIVE_UP = 10_000  # steps; nothing here takes as many
QUIET = ConnectionLost("timed out")
OK = HttpResponse(200, {}, b"")


@dataclass
class Stage:
    """A clock, and an endpoint: what it answers to a request at a time, and after how long."""

    endpoint: Callable[[HttpRequest, float], HttpResponse | ConnectionLost] = lambda _, __: BUSY
    now: float = 0.0
    asked: list[tuple[float, HttpRequest]] = field(default_factory=list)
    paused: list[float] = field(default_factory=list)

    def play(self, script: Script[T]) -> T:
        """Carry a script out; a pause and an answer that never comes take their time."""
        reply: HttpResponse | ConnectionLost | None = None
        for _ in range(GIVE_UP):
            try:
                step = script.send(reply)
            except StopIteration as done:
                result: T = done.value
                return result
            if isinstance(step, Wait):
                self.paused.append(step.seconds)
                self.now += step.seconds
                reply = None
                continue
            self.asked.append((self.now, step))
            reply = self.endpoint(step, self.now)
            if reply is QUIET:
                self.now += step.seconds
        raise AssertionError("it does not end")

    def talk(self, *, every: float = 1.0, patience: float = 70.0) -> Conversation:
        """A conversation by this clock."""
        return Conversation(lambda: self.now, every=every, patience=patience)

    @property
    def times(self) -> list[float]:
        """When something was asked."""
        return [when for when, _ in self.asked]


def one_by_one(
    *answers: HttpResponse | ConnectionLost,
) -> Callable[[HttpRequest, float], HttpResponse | ConnectionLost]:
    """An endpoint that answers so; the last answer goes on."""
    left = list(answers)
    return lambda _, __: left.pop(0) if len(left) > 1 else left[0]


# --- The document ---------------------------------------------------------------------------------


def test_the_document_is_asked_for_each_time() -> None:
    """What is returned is what is planned now; the next request waits for its second."""
    stage = Stage(one_by_one(BUSY, SAME, IDLE))
    talk = stage.talk()
    assert stage.play(talk.document()) == events.read(BUSY.body)
    assert stage.play(talk.document()) == events.read(BUSY.body)
    assert stage.play(talk.document()) == Document(1)
    assert stage.times == [0, 1, 2]


@pytest.mark.parametrize(
    "trouble",
    [
        ConnectionLost("reset"),
        refusal(404),
        refusal(410),
        refusal(429),
        refusal(500),
        HttpResponse(200, {}, b"{"),
    ],
)
def test_trouble_is_borne(trouble: HttpResponse | ConnectionLost) -> None:
    """It is asked again, later and later, until there is an answer."""
    stage = Stage(one_by_one(trouble, trouble, trouble, BUSY))
    assert stage.play(stage.talk().document()) == events.read(BUSY.body)
    assert stage.times == [0, 1, 3, 7]


@pytest.mark.parametrize(
    "trouble", [ConnectionLost("reset"), refusal(410), SAME, HttpResponse(200, {}, b"x")]
)
def test_patience_ends(trouble: HttpResponse | ConnectionLost) -> None:
    """Then the caller is told, not before and not much later."""
    stage = Stage(one_by_one(trouble))
    with pytest.raises(Unavailable) as caught:
        stage.play(stage.talk(patience=70).document())
    assert caught.value.code == "NoDocument"
    assert 60 <= stage.now <= 70


def test_patience_ends_though_the_endpoint_asks_for_more() -> None:
    """`Retry-After` is a wish: it lets a request be later, and patience no longer."""
    stage = Stage(one_by_one(refusal(429, retry_after="300")))
    with pytest.raises(Unavailable):
        stage.play(stage.talk(patience=70).document())
    assert stage.now <= 70


def test_no_patience_means_one_request() -> None:
    """For those who have something better to do."""
    stage = Stage(one_by_one(ConnectionLost("reset")))
    with pytest.raises(Unavailable):
        stage.play(stage.talk(patience=0).document())
    assert len(stage.asked) == 1


def test_no_patience_does_not_make_trouble() -> None:
    """Two questions in one second are no trouble: the second one waits."""
    stage = Stage()
    talk = stage.talk(patience=0)
    assert stage.play(talk.document()) == stage.play(talk.document())
    assert stage.times == [0, 1]


def test_a_refusal_ends_it() -> None:
    """Patience would not help."""
    stage = Stage(one_by_one(refusal(400, "no such version")))
    with pytest.raises(Refused, match="no such version"):
        stage.play(stage.talk().document())
    assert len(stage.asked) == 1


# --- Waiting --------------------------------------------------------------------------------------


def test_waiting_for_the_first_time() -> None:
    """Whatever is planned is news."""
    stage = Stage()
    assert stage.play(stage.talk().wait(None)) == events.read(BUSY.body)
    assert stage.times == [0]


def test_waiting_for_news() -> None:
    """It returns with the first document that is another; the endpoint is asked once a second."""
    stage = Stage(lambda _, now: BUSY if now < 1 else SAME if now < 5 else IDLE)
    talk = stage.talk()
    stage.play(talk.document())
    assert stage.play(talk.wait(None)) == Document(1)
    assert stage.times == [0, 1, 2, 3, 4, 5]


def test_a_counter_that_is_the_same_for_another_document() -> None:
    """It began anew, and has come as far as it was: the events are what counts."""
    stage = Stage(one_by_one(BUSY, HttpResponse(200, {"etag": '"7"'}, body(incarnation=7))))
    talk = stage.talk()
    stage.play(talk.document())
    assert stage.play(talk.wait(None)) == Document(7)


def test_news_that_came_while_nobody_waited() -> None:
    """What was never given to the caller is given at once."""
    stage = Stage(one_by_one(BUSY, ConnectionLost("reset"), IDLE))
    talk = stage.talk()
    stage.play(talk.document())
    assert stage.play(talk.wait(1)) == events.read(BUSY.body)
    assert stage.play(talk.wait(60)) == Document(1)


@pytest.mark.parametrize("timeout", [0, 0.5, 1, 2.5, 60])
def test_waiting_in_vain(timeout: float) -> None:
    """When the timeout passes it returns what is known, and not later."""
    stage = Stage(lambda ask, _: SAME if "If-None-Match" in ask.headers else BUSY)
    talk = stage.talk()
    stage.play(talk.document())
    assert stage.play(talk.wait(timeout)) == events.read(BUSY.body)
    assert timeout <= stage.now <= timeout + 0.01
    assert len(stage.asked) <= timeout + 1


@pytest.mark.parametrize("trouble", [ConnectionLost("reset"), refusal(410), refusal(503), EMPTY])
def test_trouble_does_not_end_waiting(trouble: HttpResponse | ConnectionLost) -> None:
    """Events stay known through it (IG5), and news after it are given."""
    stage = Stage(lambda _, now: BUSY if now < 1 else trouble if now < 3_600 else IDLE)
    talk = stage.talk()
    stage.play(talk.document())
    assert stage.play(talk.wait(600)) == events.read(BUSY.body)
    assert stage.now == 600
    assert stage.play(talk.wait(None)) == Document(1)
    assert 3_600 <= stage.now <= 3_630


def test_waiting_where_there_is_nothing() -> None:
    """With a timeout there must be an answer in the end; that it is "nothing" is never made up."""
    stage = Stage(one_by_one(ConnectionLost("refused")))
    with pytest.raises(Unavailable, match="refused"):
        stage.play(stage.talk().wait(20))
    assert stage.now == 20


@pytest.mark.parametrize("known", [False, True])
def test_waiting_where_nobody_says_a_word(known: bool) -> None:
    """A request that is not answered does not make a timeout any longer."""
    stage = Stage(one_by_one(BUSY, QUIET) if known else one_by_one(QUIET))
    talk = stage.talk()
    if known:
        stage.play(talk.document())
        assert stage.play(talk.wait(5)) == events.read(BUSY.body)
    else:
        with pytest.raises(Unavailable):
            stage.play(talk.wait(5))
    assert stage.now <= 5 + 2


def test_waiting_anew() -> None:
    """Who begins to watch is first told what is planned already."""
    stage = Stage()
    talk = stage.talk()
    stage.play(talk.document())
    talk.set_known()
    assert stage.play(talk.wait(None)) == events.read(BUSY.body)


# --- Where requests are held ----------------------------------------------------------------------


def test_an_endpoint_that_holds_requests_is_asked_seldom() -> None:
    """One request for thirty seconds, and another right after it."""
    stage = Stage()

    def endpoint(ask: HttpRequest, now: float) -> HttpResponse:
        stage.now += min(float(query(ask).get("wait", 0)), max(0.0, 100 - now))
        if stage.now >= 100:
            return IDLE
        return SAME if "If-None-Match" in ask.headers else BUSY

    stage.endpoint = endpoint
    talk = stage.talk()
    stage.play(talk.document())
    assert stage.play(talk.wait(None)) == Document(1)
    assert stage.now == 100
    assert stage.times == [0, 1, 31, 61, 91]


@pytest.mark.parametrize("timeout", [1, 2.5, 5, 31, 100])
def test_a_held_request_is_back_in_time(timeout: float) -> None:
    """However long the pause before it was, waiting ends when the timeout passes."""
    stage = Stage()

    def endpoint(ask: HttpRequest, _: float) -> HttpResponse:
        stage.now += float(query(ask).get("wait", 0))
        return SAME if "If-None-Match" in ask.headers else BUSY

    stage.endpoint = endpoint
    talk = stage.talk()
    stage.play(talk.document())
    assert stage.play(talk.wait(timeout)) == events.read(BUSY.body)
    assert timeout <= stage.now <= timeout + 0.01


@pytest.mark.spec("G7")
@pytest.mark.parametrize(
    "to_wait", [SAME, refusal(400, "unknown parameter")], ids=["ignored", "refused"]
)
def test_an_endpoint_that_does_not_hold_is_found_out_once(to_wait: HttpResponse) -> None:
    """From then on it is asked once a second, without the parameter."""

    def endpoint(ask: HttpRequest, _: float) -> HttpResponse:
        if "wait" in query(ask):
            return to_wait
        return SAME if "If-None-Match" in ask.headers else BUSY

    stage = Stage(endpoint)
    talk = stage.talk()
    stage.play(talk.document())
    stage.play(talk.wait(20.5))
    assert sum("wait" in query(ask) for _, ask in stage.asked) == 1
    assert stage.times == list(range(21))


@pytest.mark.parametrize("tagged", [False, True])
def test_an_endpoint_without_conditions_is_polled(tagged: bool) -> None:
    """It sends all of it every time, once a second; the same again is no news."""
    stage = Stage(one_by_one(BUSY if tagged else HttpResponse(200, {}, BUSY.body)))
    talk = stage.talk()
    stage.play(talk.document())
    stage.play(talk.wait(20.5))
    assert stage.times == list(range(21))


# --- Approving, and the own name ------------------------------------------------------------------


def test_an_approval_is_one_request() -> None:
    """It does not wait for its second: there may be little time."""
    stage = Stage(lambda ask, _: OK if ask.method == "POST" else BUSY)
    talk = stage.talk()
    stage.play(talk.document())
    stage.play(talk.approve(["A", "B"]))
    (_, (when, ask)) = stage.asked
    assert when == 0
    assert [one["EventId"] for one in json.loads(ask.body)["StartRequests"]] == ["A", "B"]


def test_nothing_to_approve() -> None:
    """Nobody is asked."""
    stage = Stage()
    stage.play(stage.talk().approve([]))
    assert stage.asked == []


def test_an_approval_bears_trouble() -> None:
    """It is sent again, unchanged; that it may have arrived before does no harm."""
    stage = Stage(
        one_by_one(ConnectionLost("reset"), refusal(410), refusal(429, retry_after="7"), OK)
    )
    stage.play(stage.talk().approve(["A"]))
    assert stage.times == [0, 1, 3, 10]
    assert len({ask.body for _, ask in stage.asked}) == 1


def test_an_approval_that_is_refused() -> None:
    """The caller learns why, in the endpoint's words; nothing is tried again."""
    stage = Stage(one_by_one(refusal(400, "there is no such event")))
    with pytest.raises(Refused, match="there is no such event"):
        stage.play(stage.talk().approve(["A"]))
    assert len(stage.asked) == 1


@pytest.mark.parametrize(
    "trouble", [ConnectionLost("reset"), refusal(503), refusal(429, retry_after="300")]
)
def test_an_approval_that_cannot_be_sent(trouble: HttpResponse | ConnectionLost) -> None:
    """When patience has ended, the caller knows that it may not have arrived."""
    stage = Stage(one_by_one(trouble))
    with pytest.raises(Unavailable) as caught:
        stage.play(stage.talk(patience=70).approve(["A"]))
    assert caught.value.code == "NoAnswer"
    assert stage.now <= 70


@pytest.mark.spec("G3")
def test_the_own_name_is_asked_for_once() -> None:
    """A machine does not change its name."""
    stage = Stage(one_by_one(refusal(500), HttpResponse(200, {}, b"web_0\n")))
    talk = stage.talk()
    assert stage.play(talk.own_name()) == "web_0"
    assert stage.play(talk.own_name()) == "web_0"
    assert stage.times == [0, 1]


@pytest.mark.spec("G3")
@pytest.mark.parametrize("sent", [b"", b" \n", b"\x00\x07\x1b{}\x1f", b"\xff\xfe"])
def test_what_is_no_name(sent: bytes) -> None:
    """An empty or broken answer is trouble as any other: a machine without a name there is not."""
    stage = Stage(one_by_one(HttpResponse(200, {}, sent), HttpResponse(200, {}, b"web_0")))
    assert stage.play(stage.talk().own_name()) == "web_0"
