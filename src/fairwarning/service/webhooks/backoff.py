"""Exponential back-off with jitter after failed deliveries."""

from collections.abc import Mapping
from http import HTTPStatus

from fairwarning.core import times
from fairwarning.core.errors import Refused
from fairwarning.service.webhooks import limits
from fairwarning.service.webhooks.environment import Environment
from fairwarning.service.webhooks.http_sender import WebhookResponse

_TRANSIENT = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)
"""The 4xx statuses that may succeed on a plain retry."""


def backoff_seconds(
    failures: int, response: WebhookResponse | None, environment: Environment
) -> float:
    """Return how long to wait after consecutive failures, the last with this response or none."""
    first = limits.FIRST_BACKOFF_SECONDS
    if response is not None and _is_rejection(response.status):
        first = limits.REJECTED_BACKOFF_SECONDS
    doubled = first * 2.0 ** min(failures - 1, 16)
    longest = min(doubled, limits.LONGEST_BACKOFF_SECONDS)
    backoff = max(longest * environment.rng.uniform(0.5, 1.0), limits.FIRST_BACKOFF_SECONDS)
    if response is None:
        return backoff
    return max(backoff, _retry_after(response.headers, environment.wall_time()))


def _is_rejection(status: int) -> bool:
    """Whether the receiver or the subscription needs a fix before a retry can succeed."""
    rejected = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    return rejected and status not in _TRANSIENT


def _retry_after(headers: Mapping[str, str], now: float) -> float:
    """Return the seconds of a Retry-After header, which holds seconds or a date."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:9])
    else:
        try:
            seconds = times.parse_date(text) - now
        except (Refused, OverflowError):
            return 0.0
    return min(max(seconds, 0.0), limits.RETRY_AFTER_MAX_SECONDS)
