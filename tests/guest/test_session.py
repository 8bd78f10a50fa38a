"""What is asked next, and what was learned; time is a number here, and there is no network."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning import Document, Refused, Unavailable, Unreadable
from fairwarning.guest import events, session
from fairwarning.guest.session import HttpRequest, HttpResponse, PollState
from tests.guest.test_events import BODIES, OLDEST, body

pytestmark = pytest.mark.spec("G1")

BUSY = HttpResponse(200, {"etag": '"7"'}, body(OLDEST, incarnation=7))
IDLE = HttpResponse(200, {"etag": '"1"'}, body())
SAME = HttpResponse(304, {"etag": '"7"'}, b"")
EMPTY = HttpResponse(200, {"content-length": "0"}, b"")
DAY = 24 * 3600.0


def refusal(status: int, error: str = "", **headers: str) -> HttpResponse:
    """An answer that is no document."""
    sent = json.dumps({"error": error}).encode() if error else b""
    return HttpResponse(
        status, {name.replace("_", "-"): text for name, text in headers.items()}, sent
    )


def query(ask: HttpRequest) -> Mapping[str, str]:
    """The parameters of a request."""
    pairs = (pair.split("=") for pair in ask.path.partition("?")[2].split("&"))
    return {name: value for name, value in pairs}  # noqa: C416  (mypy knows no pair of a list)


def informed(answer: HttpResponse = BUSY, now: float = 0.0, **settings: float) -> PollState:
    """A session that was given this answer."""
    one = PollState(**settings)  # type: ignore[arg-type]
    assert one.handle_response(one.request(now), answer, now)
    return one


# --- Asking ---------------------------------------------------------------------------------------


def test_the_first_request() -> None:
    """It has the header and a version, knows no tag, and may take two minutes."""
    ask = PollState().request(0)
    assert (ask.method, ask.path.partition("?")[0]) == ("GET", "/metadata/scheduledevents")
    assert query(ask) == {"api-version": "2020-07-01"}
    assert ask.headers == {"Metadata": "true"}
    assert ask.seconds > 120
    assert ask.body == b""


def test_later_requests_know_what_they_have() -> None:
    """They send the tag of the document, and need not be answered as slowly."""
    ask = informed().request(1)
    assert ask.headers["If-None-Match"] == '"7"'
    assert ask.seconds <= 15


def test_without_a_tag_there_is_no_condition() -> None:
    """Such an endpoint is simply asked, and never to hold a request."""
    one = informed(HttpResponse(200, {}, body(OLDEST)))
    ask = one.request(1, wait=30)
    assert "If-None-Match" not in ask.headers
    assert "wait" not in query(ask)


def test_another_version() -> None:
    """The caller may ask for any."""
    assert query(PollState(version="2017-03-01").request(0)) == {"api-version": "2017-03-01"}


def test_once_a_second() -> None:
    """By default no more is asked, however often somebody wants to know."""
    one = informed()
    assert one.pause(0) == 1
    assert one.pause(0.75) == 0.25
    assert one.pause(1) == 0
    assert one.handle_response(one.request(1), SAME, 1.5)
    assert one.pause(1.5) == 0.5


def test_a_day_of_silence() -> None:
    """The feature was switched off meanwhile and the counter began anew: the tag means nothing."""
    assert "If-None-Match" in informed().request(DAY - 3600).headers
    assert "If-None-Match" not in informed().request(DAY + 1).headers


# --- Requests that are held -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "wait"), [(0, None), (0.9, None), (1, "1"), (5.7, "5"), (30, "30"), (1e9, "30")]
)
def test_how_long_a_request_may_be_held(held: float, wait: str | None) -> None:
    """Whole seconds, at most thirty; its answer may take so much longer."""
    ask = informed().request(1, held)
    assert query(ask).get("wait") == wait
    assert ask.seconds - informed().request(1).seconds >= float(wait or 0)


def test_the_first_request_is_never_held() -> None:
    """There must be something to compare with."""
    assert "wait" not in query(PollState().request(0, wait=30))


def test_an_endpoint_that_holds_requests() -> None:
    """Once one was answered late, the next may follow at once: nobody is asked too often."""
    one = informed()
    assert one.handle_response(one.request(1, wait=30), SAME, 31)
    assert one.pause(31) == 0
    assert query(one.request(31, wait=30))["wait"] == "30"
    assert one.handle_response(one.request(31, wait=30), IDLE, 40)
    assert one.pause(40) == 0


def test_clocks_do_not_agree_to_the_millisecond() -> None:
    """A request that was held for a second may be back a trifle sooner by our clock."""
    one = informed()
    assert one.handle_response(one.request(1, wait=1), SAME, 1.9995)
    assert query(one.request(3, wait=30))["wait"] == "30"


def test_an_endpoint_that_does_not_look_at_the_parameter() -> None:
    """It answers at once that nothing is new; so it is polled, and not asked to hold again."""
    one = informed()
    assert one.handle_response(one.request(1, wait=30), SAME, 1.02)
    assert one.pause(1.02) == pytest.approx(0.98)
    assert "wait" not in query(one.request(2, wait=30))


def test_an_endpoint_that_refuses_the_parameter() -> None:
    """It is polled without it, and nothing that was known is lost."""
    one = informed()
    assert not one.handle_response(one.request(1, wait=30), refusal(400, "what is wait?"), 1.02)
    assert one.pause(1.02) == pytest.approx(0.98)
    ask = one.request(2, wait=30)
    assert "wait" not in query(ask)
    assert ask.headers["If-None-Match"] == '"7"'
    assert one.document == events.read(BUSY.body)
    assert one.handle_response(ask, SAME, 2.02)


def test_an_endpoint_that_does_not_look_at_the_condition() -> None:
    """It sends the same document at once, each time; it must not be asked without a pause."""
    one = informed()
    for second in range(1, 5):
        assert one.handle_response(one.request(second, wait=30), BUSY, second + 0.02)
        assert one.pause(second + 0.02) == pytest.approx(0.98)


def test_an_endpoint_that_has_news_every_time() -> None:
    """If it holds nothing, it is not asked without a pause either."""
    one = informed()
    asked_at = []
    now = 1.0
    for incarnation in range(8, 18):
        now += one.pause(now)
        asked_at.append(now)
        news = HttpResponse(
            200, {"etag": f'"{incarnation}"'}, body(OLDEST, incarnation=incarnation)
        )
        assert one.handle_response(one.request(now, wait=30), news, now + 0.02)
        now += 0.02
    assert asked_at[-1] - asked_at[0] >= len(asked_at) - 3


# --- Trouble --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [404, 408, 410, 425, 429, 500, 502, 503, 504, 599])
def test_what_passes(status: int) -> None:
    """Nothing is learned from it, nothing is forgotten, and asking again comes later and later."""
    one = informed()
    now, pauses = 1.0, []
    for _ in range(12):
        assert not one.handle_response(one.request(now), refusal(status), now)
        pauses.append(one.pause(now))
        now += pauses[-1]
    assert pauses[:5] == [1, 2, 4, 8, 16]
    assert max(pauses) == 30
    assert one.document == events.read(BUSY.body)


def test_no_answer_is_trouble_as_well() -> None:
    """A broken connection and an answer that never came are borne in the same way."""
    one = informed()
    one.request(1)
    one.failed("reset", 1)
    one.request(2)
    one.failed("timed out", 12)
    assert one.pause(12) == 2
    assert one.document == events.read(BUSY.body)


@pytest.mark.parametrize("good", [BUSY, SAME, IDLE])
def test_after_trouble_all_is_as_before(good: HttpResponse) -> None:
    """One answer, and the next trouble is the first again."""
    one = informed()
    for second in range(5):
        one.request(second)
        one.failed("reset", second)
    assert one.handle_response(one.request(100), good, 100)
    assert one.pause(100) == 1
    one.request(101)
    one.failed("reset", 101)
    assert one.pause(101) == 1


def test_an_empty_answer_ends_trouble_too() -> None:
    """On an idle machine it is all that Azure says."""
    one = informed(IDLE)
    for second in range(5):
        one.request(second)
        one.failed("reset", second)
    assert one.handle_response(one.request(100), EMPTY, 100)
    one.request(101)
    one.failed("reset", 101)
    assert one.pause(101) == 1


@pytest.mark.parametrize(
    ("text", "pause"),
    [("7", 7), ("0", 1), ("", 1), ("soon", 1), ("-5", 1), ("1e9", 1), ("99999", 300), ("²", 1)],
)
def test_the_endpoint_says_when_to_come_again(text: str, pause: float) -> None:
    """That is heeded, within reason; never sooner than we would by ourselves."""
    one = PollState()
    assert not one.handle_response(one.request(0), refusal(429, retry_after=text), 0)
    assert one.pause(0) == pause


@pytest.mark.parametrize("status", [201, 204, 301, 400, 401, 403, 405, 413])
def test_what_does_not_pass(status: int) -> None:
    """Asking again would not help: the caller is told, with the endpoint's own words."""
    one = informed()
    with pytest.raises(Refused, match=f"{status}.*a bad request"):
        one.handle_response(one.request(1), refusal(status, "a bad request"), 1)
    assert one.document == events.read(BUSY.body)


@pytest.mark.parametrize(
    "sent", [b"", b"{", b"[]", b'{"error":5}', b'{"error":[]}', b'"error"', b"[" * 9999, b"\xff"]
)
def test_a_refusal_in_any_words(sent: bytes) -> None:
    """What cannot be read is left out."""
    one = PollState()
    with pytest.raises(Refused, match=r"400$"):
        one.handle_response(one.request(0), HttpResponse(400, {}, sent), 0)


def test_empty_answers_of_an_idle_machine() -> None:
    """Nothing is planned, as far as anybody knows; that is a document."""
    for one in (
        informed(EMPTY),
        informed(HttpResponse(200, {"content-length": "3"}, b" \r\n")),
        informed(IDLE),
    ):
        assert one.handle_response(one.request(1), EMPTY, 1)
        assert one.document is not None
        assert one.document.events == ()
    assert informed(EMPTY).document == Document()


def test_half_an_answer_is_not_an_empty_one() -> None:
    """Its head was cut off before it told of a length: nobody said that nothing is planned."""
    one = PollState()
    assert not one.handle_response(one.request(0), HttpResponse(200, {}, b""), 0)
    assert one.document is None


def test_empty_answers_while_something_is_planned() -> None:
    """They take nothing away."""
    one = informed()
    assert not one.handle_response(one.request(1), EMPTY, 1)
    assert one.document == events.read(BUSY.body)
    assert one.handle_response(one.request(2), IDLE, 2)
    assert one.document == Document(1)


def test_not_modified_before_there_was_anything() -> None:
    """It was no answer to what was asked, and there is still no document."""
    one = PollState()
    assert not one.handle_response(one.request(0), SAME, 0)
    assert one.document is None
    assert one.pause(0) >= 1


def test_when_patience_ends() -> None:
    """What went wrong last is told."""
    one = PollState()
    assert "there was no response" in str(one.unavailable_error())
    one.handle_response(one.request(0), refusal(503, "on holiday"), 0)
    assert isinstance(one.unavailable_error(), Unavailable)
    assert "503 (on holiday)" in str(one.unavailable_error())
    one.failed("connection reset", 1)
    assert "connection reset" in str(one.unavailable_error())


HEADERS = st.dictionaries(st.sampled_from(["etag", "retry-after", "x"]), st.text(max_size=9))
ANSWERS = st.builds(
    HttpResponse,
    st.sampled_from([200, 304, 400, 404, 410, 429, 500]) | st.integers(100, 999),
    HEADERS,
    BODIES | st.just(b"") | st.just(BUSY.body),
)


@given(st.lists(st.tuples(ANSWERS | st.none(), st.floats(0, 60)), max_size=12))
def test_whatever_happens_events_stay_known(steps: list[tuple[HttpResponse | None, float]]) -> None:
    """Only a document takes an event away (IG5); nothing but a refusal is ever raised."""
    one, now = informed(), 0.0
    known = events.read(BUSY.body)
    for answer, passed in steps:
        now += one.pause(now)
        ask = one.request(now, wait=30)
        now += passed
        try:
            if answer is None:
                one.failed("reset", now)
            elif (
                one.handle_response(ask, answer, now)
                and answer.status == 200
                and answer.body.strip()
            ):
                known = events.read(answer.body)
        except Refused:
            pass
        assert one.document == known
        assert 0 <= one.pause(now) <= 300


@given(ANSWERS)
def test_only_a_document_is_a_document(answer: HttpResponse) -> None:
    """Before the first, garbage is not taken for "nothing is planned"."""
    one = PollState()
    try:
        learned = one.handle_response(one.request(0), answer, 0)
    except Refused:
        learned = False
    assert learned == (one.document is not None)
    if one.document is not None and answer.body.strip():
        assert events.read(answer.body) == one.document


# --- Other requests -------------------------------------------------------------------------------


def test_an_approval() -> None:
    """One request for all events; no counter, which Azure has long stopped asking for."""
    ask = session.approval_request(["A", "B"], "2019-08-01")
    assert (ask.method, ask.headers["Metadata"]) == ("POST", "true")
    assert query(ask) == {"api-version": "2019-08-01"}
    assert json.loads(ask.body) == {"StartRequests": [{"EventId": "A"}, {"EventId": "B"}]}


@pytest.mark.spec("G3")
def test_the_request_for_the_own_name() -> None:
    """Instance metadata has versions of its own, and gives a leaf as text only."""
    ask = session.name_request()
    assert ask.path.partition("?")[0] == "/metadata/instance/compute/name"
    assert query(ask) == {"api-version": "2021-02-01", "format": "text"}
    assert ask.headers == {"Metadata": "true"}


def test_unreadable_answers_are_told() -> None:
    """With what was sent, so that somebody can see what it is."""
    one = informed()
    assert not one.handle_response(one.request(1), HttpResponse(200, {}, b"<html>login"), 1)
    assert "<html>login" in str(one.unavailable_error())
    with pytest.raises(Unreadable):
        events.read(b"<html>login")
