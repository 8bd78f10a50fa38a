"""The next request and the state after responses, in virtual time, without a network."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning import Document, Refused
from fairwarning.guest import events
from fairwarning.guest.session import HttpRequest, HttpResponse, PollState
from tests.guest.test_events import BODIES, OLDEST, body

pytestmark = pytest.mark.spec("G1")

BUSY = HttpResponse(200, {"etag": '"7"'}, body(OLDEST, incarnation=7))
IDLE = HttpResponse(200, {"etag": '"1"'}, body())
SAME = HttpResponse(304, {"etag": '"7"'}, b"")
EMPTY = HttpResponse(200, {"content-length": "0"}, b"")
DAY = 24 * 3600.0


def refusal(status: int, error: str = "", **headers: str) -> HttpResponse:
    """Return an error response."""
    sent = json.dumps({"error": error}).encode() if error else b""
    return HttpResponse(
        status, {name.replace("_", "-"): text for name, text in headers.items()}, sent
    )


def query(request: HttpRequest) -> Mapping[str, str]:
    """Return the query parameters of a request."""
    pairs = (pair.split("=") for pair in request.path.partition("?")[2].split("&"))
    return {name: value for name, value in pairs}  # noqa: C416  (mypy knows no pair of a list)


def informed(response: HttpResponse = BUSY, now: float = 0.0, **settings: float) -> PollState:
    """Return a state that has processed this response."""
    state = PollState(**settings)  # type: ignore[arg-type]
    assert state.handle_response(state.request(now), response, now)
    return state


# --- Requests -------------------------------------------------------------------------------------


def test_without_a_tag_there_is_no_condition() -> None:
    """Such an endpoint is polled, and never asked to hold a request."""
    state = informed(HttpResponse(200, {}, body(OLDEST)))
    request = state.request(1, wait=30)
    assert "If-None-Match" not in request.headers
    assert "wait" not in query(request)


def test_an_idle_day() -> None:
    """The feature was disabled and the incarnation restarted: the tag is invalid."""
    assert "If-None-Match" in informed().request(DAY - 3600).headers
    assert "If-None-Match" not in informed().request(DAY + 1).headers


# --- Long polls -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "wait"), [(0, None), (0.9, None), (1, "1"), (5.7, "5"), (30, "30"), (1e9, "30")]
)
def test_the_length_of_a_long_poll(held: float, wait: str | None) -> None:
    """Whole seconds, at most thirty; the timeout grows by as much."""
    request = informed().request(1, held)
    assert query(request).get("wait") == wait
    assert request.seconds - informed().request(1).seconds >= float(wait or 0)


def test_clocks_do_not_agree_to_the_millisecond() -> None:
    """A request held for a second may return slightly sooner by our clock."""
    state = informed()
    assert state.handle_response(state.request(1, wait=1), SAME, 1.9995)
    assert query(state.request(3, wait=30))["wait"] == "30"


def test_an_endpoint_with_a_change_every_time() -> None:
    """If it holds nothing, the interval must hold as well."""
    state = informed()
    asked_at = []
    now = 1.0
    for incarnation in range(8, 18):
        now += state.pause(now)
        asked_at.append(now)
        news = HttpResponse(
            200, {"etag": f'"{incarnation}"'}, body(OLDEST, incarnation=incarnation)
        )
        assert state.handle_response(state.request(now, wait=30), news, now + 0.02)
        now += 0.02
    assert asked_at[-1] - asked_at[0] >= len(asked_at) - 3


# --- Failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "good"), [(BUSY, BUSY), (BUSY, SAME), (BUSY, IDLE), (IDLE, EMPTY)]
)
def test_a_success_resets_the_back_off(known: HttpResponse, good: HttpResponse) -> None:
    """The next failure counts as the first again. An idle machine of Azure gets empty responses."""
    state = informed(known)
    for second in range(5):
        state.request(second)
        state.failed("reset", second)
    assert state.handle_response(state.request(100), good, 100)
    assert state.pause(100) == 1
    state.request(101)
    state.failed("reset", 101)
    assert state.pause(101) == 1


@pytest.mark.parametrize(
    ("text", "pause"),
    [("7", 7), ("0", 1), ("", 1), ("soon", 1), ("-5", 1), ("1e9", 1), ("99999", 300), ("²", 1)],
)
def test_retry_after(text: str, pause: float) -> None:
    """It is honoured up to a limit, and never shortens our own back-off."""
    state = PollState()
    assert not state.handle_response(state.request(0), refusal(429, retry_after=text), 0)
    assert state.pause(0) == pause


@pytest.mark.parametrize(
    "sent", [b"", b"{", b"[]", b'{"error":5}', b'{"error":[]}', b'"error"', b"[" * 9999, b"\xff"]
)
def test_refusals_in_any_format(sent: bytes) -> None:
    """An unreadable error text is omitted."""
    state = PollState()
    with pytest.raises(Refused, match=r"400$"):
        state.handle_response(state.request(0), HttpResponse(400, {}, sent), 0)


def test_empty_responses_of_an_idle_machine() -> None:
    """They count as a document without events."""
    for state in (
        informed(EMPTY),
        informed(HttpResponse(200, {"content-length": "3"}, b" \r\n")),
        informed(IDLE),
    ):
        assert state.handle_response(state.request(1), EMPTY, 1)
        assert state.document is not None
        assert state.document.events == ()
    assert informed(EMPTY).document == Document(assumed=True)


@pytest.mark.parametrize("incarnation", [0, 1])
def test_an_empty_document_is_not_an_empty_response(incarnation: int) -> None:
    """It was read, whatever its number, so a wait for a change returns it."""
    state = informed(EMPTY)
    response = HttpResponse(200, {}, body(incarnation=incarnation))
    assert state.handle_response(state.request(1), response, 1)
    assert state.document == Document(incarnation)
    assert state.document != Document(incarnation, assumed=True)


def test_a_truncated_response_is_not_empty() -> None:
    """Its head ended before a length: it does not mean "no events"."""
    state = PollState()
    assert not state.handle_response(state.request(0), HttpResponse(200, {}, b""), 0)
    assert state.document is None


HEADERS = st.dictionaries(st.sampled_from(["etag", "retry-after", "x"]), st.text(max_size=9))
ANSWERS = st.builds(
    HttpResponse,
    st.sampled_from([200, 304, 400, 404, 410, 429, 500]) | st.integers(100, 999),
    HEADERS,
    BODIES | st.just(b"") | st.just(BUSY.body),
)


@given(st.lists(st.tuples(ANSWERS | st.none(), st.floats(0, 60)), max_size=12))
def test_only_a_document_removes_events(steps: list[tuple[HttpResponse | None, float]]) -> None:
    """IG5; nothing but a refusal is ever raised."""
    state, now = informed(), 0.0
    known = events.read(BUSY.body)
    for response, passed in steps:
        now += state.pause(now)
        request = state.request(now, wait=30)
        now += passed
        try:
            if response is None:
                state.failed("reset", now)
            elif (
                state.handle_response(request, response, now)
                and response.status == 200
                and response.body.strip()
            ):
                known = events.read(response.body)
        except Refused:
            pass
        assert state.document == known
        assert 0 <= state.pause(now) <= 300
