"""A conversation with the endpoint: what to ask next, and what was learned. No input, no output.

The clients, with and without asyncio, only carry the bytes.

G1: the feature takes up to two minutes to switch on; empty answers, 404, 410, 429, 5xx and broken
connections pass; nobody may ask more than a few times a second. IG5: none of it means "no events".
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlencode

from fairwarning.core.errors import Refused, Unavailable
from fairwarning.guest.events import Document, Unreadable, read

VERSION = "2020-07-01"  # the newest that Azure has everywhere
INSTANCE_VERSION = "2021-02-01"

EVERY_SECONDS = 1.0  # between two requests, unless they are held: Azure's advice, and within limits
FIRST_SECONDS = 130.0  # the first answer may take two minutes
USUAL_SECONDS = 10.0
HELD_SECONDS = 30.0  # how long we let an endpoint that can hold a request hold it
SILENCE_SECONDS = 23.5 * 3600  # after a day of it, the numbers of documents begin anew (M11)
SOON_SECONDS = 0.9  # an answer that says nothing new this soon was not held
_LONGEST_PAUSE_SECONDS = 30.0
_RETRIED = frozenset({404, 408, 410, 425, 429})


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request that is to be sent."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    seconds: float  # how long its answer may take


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What came back."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


class PollState:
    """What is known so far, and when what may be asked next."""

    def __init__(self, *, version: str = VERSION, every: float = EVERY_SECONDS) -> None:
        self.document: Document | None = None
        """The newest that was read; None before the first."""
        self._version = version
        self._every = every
        self._etag = ""
        self._holds: bool | None = None  # whether the endpoint holds requests; None: we may try
        self._asked_at = float("-inf")
        self._not_before = float("-inf")
        self._failures = 0
        self._last_trouble = "nobody answered"

    # --- Reading the document ---

    def pause(self, now: float) -> float:
        """Seconds until the next request may be sent."""
        return max(0.0, self._not_before - now)

    def ask(self, now: float, held: float = 0.0) -> HttpRequest:
        """The request for the document; it may be held for so long if there is nothing new."""
        query = {"api-version": self._version}
        headers = {"Metadata": "true"}
        seconds = USUAL_SECONDS if self.document else FIRST_SECONDS
        if now - self._asked_at > SILENCE_SECONDS:
            self._etag = ""  # it may stand for another document by now
        if self._etag:
            headers["If-None-Match"] = self._etag
        if held >= 1 and self._etag and self._holds is not False:
            query["wait"] = str(int(min(held, HELD_SECONDS)))
            seconds += min(held, HELD_SECONDS)
        self._asked_at = now
        self._not_before = now + self._every
        path = f"/metadata/scheduledevents?{urlencode(query)}"
        return HttpRequest("GET", path, headers, b"", seconds)

    def learned(self, ask: HttpRequest, answer: HttpResponse, now: float) -> bool:
        """Take an answer in; whether it told us of a document (the same one, perhaps)."""
        status = answer.status
        before = self.document
        if status == HTTPStatus.OK and answer.body.strip():
            try:
                self._read(answer)
            except Unreadable as error:
                self._stumble(str(error.message), now)
                return False
        elif status == HTTPStatus.OK:
            return self._empty(answer, now)
        elif status != HTTPStatus.NOT_MODIFIED:
            return self._refused(ask, answer, now)
        elif before is None:
            self._stumble("the answer was 304 to no condition", now)
            return False
        self._note_holding(ask, now, unchanged=self.document == before)
        self._failures = 0
        return True

    def _read(self, answer: HttpResponse) -> None:
        self.document = read(answer.body)
        self._etag = answer.headers.get("etag", "")

    def _empty(self, answer: HttpResponse, now: float) -> bool:
        """Idle machines of Azure get nothing at all. It is no news; where there was none, none."""
        told = "content-length" in answer.headers or "transfer-encoding" in answer.headers
        if not told or (self.document and self.document.events):
            self._stumble("the answer was empty", now)
            return False
        if self.document is None:
            self.document = Document()
        self._failures = 0
        return True

    def _note_holding(self, ask: HttpRequest, now: float, *, unchanged: bool) -> None:
        if "wait=" not in ask.path:
            return
        soon = now - self._asked_at < SOON_SECONDS
        if unchanged:
            self._holds = not soon
        if self._holds or not soon:
            self._not_before = now

    def _refused(self, ask: HttpRequest, answer: HttpResponse, now: float) -> bool:
        status = answer.status
        if status == HTTPStatus.BAD_REQUEST and "wait=" in ask.path:
            self._holds = False  # an endpoint that takes no parameter it does not know
            return False
        self._etag = ""
        if status in _RETRIED or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self._stumble(f"the answer was {status} {said(answer)}".strip(), now, after(answer))
            return False
        raise Refused("BadRequest", f"the endpoint refused: {status} {said(answer)}".strip())

    def failed(self, why: object, now: float) -> None:
        """There was no answer, or half of one."""
        self._stumble(f"no answer: {why}", now)

    def _stumble(self, why: str, now: float, wait: float = 0.0) -> None:
        self._failures += 1
        self._last_trouble = why
        pause = min(self._every * 2.0 ** min(self._failures - 1, 10), _LONGEST_PAUSE_SECONDS)
        self._not_before = max(self._not_before, now + max(pause, wait))

    def unreachable(self) -> Unavailable:
        """What to say when patience has ended."""
        return Unavailable(
            "NoDocument", f"the endpoint gives no document; last time {self._last_trouble}"
        )


# --- Other requests -------------------------------------------------------------------------------


def approval(events: Iterable[str], version: str = VERSION) -> HttpRequest:
    """The request that approves these events."""
    body = {"StartRequests": [{"EventId": event} for event in events]}
    path = f"/metadata/scheduledevents?{urlencode({'api-version': version})}"
    headers = {"Metadata": "true", "Content-Type": "application/json"}
    return HttpRequest("POST", path, headers, json.dumps(body).encode(), USUAL_SECONDS)


def own_name() -> HttpRequest:
    """The request for the machine's own resource name: its host name is another (G3)."""
    query = urlencode({"api-version": INSTANCE_VERSION, "format": "text"})
    path = f"/metadata/instance/compute/name?{query}"
    return HttpRequest("GET", path, {"Metadata": "true"}, b"", USUAL_SECONDS)


def passes(answer: HttpResponse) -> bool:
    """Whether the same request may well succeed a little later."""
    return answer.status in _RETRIED or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR


def after(answer: HttpResponse) -> float:
    """How long the endpoint asks us to wait."""
    text = answer.headers.get("retry-after", "")
    return min(float(text), 300.0) if text.isascii() and text.isdigit() else 0.0


def said(answer: HttpResponse) -> str:
    """What an error says of itself."""
    try:
        error = json.loads(answer.body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return f"({error})" if isinstance(error, str) else ""
