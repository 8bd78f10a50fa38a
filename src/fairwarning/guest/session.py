"""Polling the endpoint: the next request and the state learned from responses. No I/O.

The synchronous and asyncio clients only transfer the bytes.

G1: enabling the feature takes up to two minutes; empty responses, 404, 410, 429, 5xx and broken
connections are transient; clients may poll only a few times a second. IG5: no failure, a refusal
included, means "no events".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlencode

from fairwarning.core.errors import Refused
from fairwarning.guest.events import Document, Unreadable, keep_skipped, read

VERSION = "2020-07-01"  # the newest version available everywhere on Azure
INSTANCE_VERSION = "2021-02-01"

INTERVAL_SECONDS = 1.0  # between requests that are not held, as Azure advises
FIRST_TIMEOUT_SECONDS = 130.0  # the first response may take two minutes
TIMEOUT_SECONDS = 10.0
WAIT_SECONDS = 30.0  # the longest long poll, where the endpoint supports `wait`
ETAG_SECONDS = 23.5 * 3600  # validity of an ETag: incarnations restart after an idle day (M11)
NOT_HELD_SECONDS = 0.9  # an unchanged response before this shows that the request was not held
_ETAG_CHARACTERS = 200
_ERROR_CHARACTERS = 300
_ERROR_BYTES = 4096  # a longer error is not read
_MAX_PAUSE_SECONDS = 30.0
_RETRIED = frozenset({404, 408, 410, 425, 429})
_FORBIDDEN = frozenset({401, 403})  # a proxy or firewall may send these for a while


@dataclass(frozen=True)
class HttpRequest:
    """An HTTP request to send."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    seconds: float  # timeout of the response


@dataclass(frozen=True)
class HttpResponse:
    """An HTTP response."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


class PollState:
    """The last document, and the time and form of the next request."""

    def __init__(self, *, version: str = VERSION, every: float = INTERVAL_SECONDS) -> None:
        self.document: Document | None = None
        """The last document read; None before the first."""
        self._version = version
        self._every = every
        self._etag = ""
        self._supports_wait: bool | None = None  # whether `wait` holds requests; None: unknown
        self._requested_at = float("-inf")
        self._not_before = float("-inf")
        self.failures = 0
        """Failed requests since the last document."""
        self.all_failures = 0
        self.last_failure = "there was no response"
        self.refused = False
        """Whether the last failure was a response that may be permanent, such as 403."""

    # --- Reading the document ---

    def pause(self, now: float) -> float:
        """Return the seconds until the next request may be sent."""
        return max(0.0, self._not_before - now)

    def request(self, now: float, wait: float = 0.0) -> HttpRequest:
        """Return the request for the document, with a long poll of up to `wait` seconds."""
        query = {"api-version": self._version}
        headers = {"Metadata": "true"}
        seconds = TIMEOUT_SECONDS if self.document else FIRST_TIMEOUT_SECONDS
        if now - self._requested_at > ETAG_SECONDS:
            self._etag = ""  # it may denote another document by now
        if self._etag:
            headers["If-None-Match"] = self._etag
        if wait >= 1 and self._etag and self._supports_wait is not False:
            query["wait"] = str(int(min(wait, WAIT_SECONDS)))
            seconds += min(wait, WAIT_SECONDS)
        self._requested_at = now
        self._not_before = now + self._every
        path = f"/metadata/scheduledevents?{urlencode(query)}"
        return HttpRequest("GET", path, headers, b"", seconds)

    def handle_response(self, request: HttpRequest, response: HttpResponse, now: float) -> bool:
        """Process a response; return whether it confirmed a document, new or unchanged."""
        status = response.status
        before = self.document
        if status == HTTPStatus.OK and response.body.strip():
            try:
                self._read(response)
            except Unreadable as error:
                self._record_failure(str(error.message), now)
                return False
        elif status == HTTPStatus.OK:
            return self._handle_empty(response, now)
        elif status != HTTPStatus.NOT_MODIFIED:
            return self._handle_error(request, response, now)
        elif before is None:
            self._record_failure("the response was 304 to an unconditional request", now)
            return False
        self._detect_wait_support(request, now, unchanged=self.document == before)
        self.failures = 0
        return True

    def _read(self, response: HttpResponse) -> None:
        self.document = keep_skipped(read(response.body), self.document or Document())
        etag = response.headers.get("etag", "")
        self._etag = etag if len(etag) <= _ETAG_CHARACTERS and etag.isprintable() else ""

    def _handle_empty(self, response: HttpResponse, now: float) -> bool:
        """Process an empty response, which Azure sends to idle machines.

        It counts as a document without events, unless the last document had events.
        """
        framed = "content-length" in response.headers or "transfer-encoding" in response.headers
        if not framed or (self.document and self.document.events):
            self._record_failure("the response was empty", now)
            return False
        if self.document is None:
            self.document = Document(assumed=True)
        self.failures = 0
        return True

    def _detect_wait_support(self, request: HttpRequest, now: float, *, unchanged: bool) -> None:
        if "wait=" not in request.path:
            return
        immediate = now - self._requested_at < NOT_HELD_SECONDS
        if unchanged:
            self._supports_wait = not immediate
        if self._supports_wait or not immediate:
            self._not_before = now

    def _handle_error(self, request: HttpRequest, response: HttpResponse, now: float) -> bool:
        status = response.status
        if status == HTTPStatus.BAD_REQUEST and "wait=" in request.path:
            self._supports_wait = False  # the endpoint refuses unknown parameters
            return False
        if status == HTTPStatus.BAD_REQUEST and self.document is None:
            text = f"the endpoint refused the request: {status} {error_text(response)}".strip()
            raise Refused("BadRequest", text)
        self._etag = ""
        failure = f"the response was {status} {error_text(response)}".strip()
        self._record_failure(failure, now, retry_after(response))
        self.refused = not (status in _RETRIED or status >= HTTPStatus.INTERNAL_SERVER_ERROR)
        return False

    def failed(self, reason: object, now: float) -> None:
        """Record a request without a complete response."""
        self._record_failure(f"there was no response: {reason}", now)

    def _record_failure(self, reason: str, now: float, wait: float = 0.0) -> None:
        self.failures += 1
        self.all_failures += 1
        self.last_failure = reason
        self.refused = False
        pause = min(self._every * 2.0 ** min(self.failures - 1, 10), _MAX_PAUSE_SECONDS)
        self._not_before = max(self._not_before, now + max(pause, wait))


# --- Other requests -------------------------------------------------------------------------------


def approval_request(events: Iterable[str], version: str = VERSION) -> HttpRequest:
    """Return the request that approves these events."""
    body = {"StartRequests": [{"EventId": event} for event in events]}
    path = f"/metadata/scheduledevents?{urlencode({'api-version': version})}"
    headers = {"Metadata": "true", "Content-Type": "application/json"}
    return HttpRequest("POST", path, headers, json.dumps(body).encode(), TIMEOUT_SECONDS)


def name_request(seconds: float = TIMEOUT_SECONDS) -> HttpRequest:
    """Return the request for the machine's resource name, which may not be its host name (G3)."""
    query = urlencode({"api-version": INSTANCE_VERSION, "format": "text"})
    path = f"/metadata/instance/compute/name?{query}"
    return HttpRequest("GET", path, {"Metadata": "true"}, b"", seconds)


def is_transient(response: HttpResponse) -> bool:
    """Whether the same request may succeed later."""
    retried = _RETRIED | _FORBIDDEN
    return response.status in retried or response.status >= HTTPStatus.INTERNAL_SERVER_ERROR


def retry_after(response: HttpResponse) -> float:
    """Return the seconds in Retry-After; 0 if there are none."""
    text = response.headers.get("retry-after", "")
    return min(float(text), 300.0) if text.isascii() and text.isdigit() else 0.0


def error_text(response: HttpResponse) -> str:
    """Return the `error` member of a response, in parentheses."""
    try:
        error = json.loads(response.body[:_ERROR_BYTES])["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    if not isinstance(error, str):
        return ""
    shown = (char if char.isprintable() else " " for char in error[:_ERROR_CHARACTERS])
    return f"({''.join(shown)})"
