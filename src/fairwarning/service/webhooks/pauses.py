"""How long to wait after a failure: twice as long each time, and never all at the same moment."""

from collections.abc import Mapping
from http import HTTPStatus

from fairwarning.core import times
from fairwarning.core.errors import Refused
from fairwarning.service.webhooks import limits
from fairwarning.service.webhooks.outside import Environment
from fairwarning.service.webhooks.posting import WebhookResponse

_PASSING = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)
"""Those of the 4xx that go away by themselves."""


def pause_seconds(failures: int, answer: WebhookResponse | None, outside: Environment) -> float:
    """How long to wait after so many failures in a row, the last with this answer or none."""
    first = limits.FIRST_PAUSE_SECONDS
    if answer is not None and _needs_mending(answer.status):
        first = limits.REFUSED_PAUSE_SECONDS
    doubled = first * 2.0 ** min(failures - 1, 16)
    longest = min(doubled, limits.LONGEST_PAUSE_SECONDS)
    pause = max(longest * outside.chance.uniform(0.5, 1.0), limits.FIRST_PAUSE_SECONDS)
    asked = _retry_after(answer.headers, outside.wall()) if answer is not None else 0.0
    return max(pause, asked)


def _needs_mending(status: int) -> bool:
    """Whether somebody has to change something before it can go well."""
    refused = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    return refused and status not in _PASSING


def _retry_after(headers: Mapping[str, str], now: float) -> float:
    """What the receiver asks for, in seconds: it may say them, or a date."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:9])
    else:
        try:
            seconds = times.parse_date(text) - now
        except (Refused, OverflowError):
            return 0.0
    return min(max(seconds, 0.0), limits.RETRY_AFTER_MAX_SECONDS)
