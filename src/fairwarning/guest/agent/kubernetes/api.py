"""Calls to the Kubernetes API until a deadline, and what its errors mean.

A starting API server refuses valid tokens and rights, and does not know all its paths. So only an
answer about the object or the request itself is final.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

from fairwarning.core.errors import FairwarningError, NotFound, Refused, Unavailable

if TYPE_CHECKING:
    from typing import Self

CALL_SECONDS = 5.0  # a response usually takes milliseconds
LASTING_SECONDS = 10.0  # a failure that lasts as long is logged
RIGHTS = "deploy/kubernetes-agent/base/rbac.yaml"

_SHORTEST_CALL_SECONDS = 0.1
_SPARE_SECONDS = 1.0  # reserved to report remaining pods before the deadline ...
_SPARE_SHARE = 0.1  # ... but at most this share of a short time
_PAUSE_SECONDS = (1.0, 5.0)  # between attempts: the first, and the longest as in kubectl
_PAUSE_SHARE = 1 / 30  # of the remaining time
_RETRIED = {
    0,  # no response
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,  # another client changed the object
    HTTPStatus.GONE,  # the next page of a list has expired
    HTTPStatus.TOO_MANY_REQUESTS,
}

Client = Any  # lightkube's
ApiObject = Any  # a node, a pod, ... of lightkube's models
ApiFailure = Any  # lightkube's error
T = TypeVar("T")

log = logging.getLogger(__name__)


def connect(seconds: float) -> Client:
    """Return a client with this timeout; raise `Refused` if no cluster is configured."""
    try:
        import lightkube  # noqa: PLC0415  (an optional dependency)
    except ImportError as error:
        text = "Kubernetes needs lightkube: pip install 'fairwarning[kubernetes]'"
        raise Refused("NoLightkube", text) from error
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # otherwise it logs every request
    client_class: Any = lightkube.Client
    with _decoding:
        _prepare_decoders()
        try:
            return client_class(timeout=seconds)  # decodes the kubeconfig file
        except Exception as error:  # lightkube raises many kinds for a bad configuration
            text = (
                f"cannot connect to a Kubernetes cluster: {error_text(error)}. Run in a pod with a"
                " service account, or set KUBECONFIG to a kubeconfig file"
            )
            raise Refused("NoCluster", text) from error


_decoding = threading.Lock()
"""If several threads decode a type for the first time at once, msgspec, which lightkube decodes
with, crashes the interpreter (seen with msgspec 0.22)."""
_is_prepared = threading.Event()


def _prepare_decoders() -> None:
    """Decode an object of each kind once, so that threads may decode them afterwards."""
    if _is_prepared.is_set():
        return
    from lightkube.core import decoders  # noqa: PLC0415  (an optional dependency)
    from lightkube.resources.authorization_v1 import (  # noqa: PLC0415  (as above)
        SelfSubjectAccessReview,
    )
    from lightkube.resources.coordination_v1 import Lease  # noqa: PLC0415  (as above)
    from lightkube.resources.core_v1 import Event, Node, Pod  # noqa: PLC0415  (as above)

    for kind in (Node, Pod, Pod.Eviction, Lease, Event):
        decoders.decode_object(b'{"metadata":{},"involvedObject":{}}', kind)
    decoders.decode_object(b'{"spec":{}}', SelfSubjectAccessReview)
    for kind in (Node, Pod):
        decoders.decode_list(b'{"items":[]}', kind)
    decoders.decode_status(b"{}")
    _is_prepared.set()


class KubernetesClient:
    """Calls to the Kubernetes API until a deadline. Failures that may pass are retried."""

    def __init__(
        self, deadline: datetime, is_cancelled: Callable[[], bool] = lambda: False
    ) -> None:
        left = deadline.timestamp() - time.time()
        left -= min(_SPARE_SECONDS, left * _SPARE_SHARE)
        self._deadline = time.monotonic() + left
        self._is_cancelled = is_cancelled
        self._seconds = 0.0
        self._client: Client = None
        self._pause = _PAUSE_SECONDS[0]
        self._failure = LastingFailure()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def seconds_left(self) -> float:
        """Return the seconds until the deadline."""
        return self._deadline - time.monotonic()

    def client(self) -> Client:
        """Return a client whose calls end before the deadline; raise if it is too late."""
        if self._is_cancelled():
            raise Unavailable("Over", "the event is over, so its preparation stops")
        left = self.seconds_left()
        if left <= 0:
            text = "; ".join(filter(None, ["the deadline has passed", self._failure.text]))
            raise Unavailable("NoTimeLeft", text)
        if self._client is None or left < self._seconds:
            self.__exit__()
            self._seconds = max(_SHORTEST_CALL_SECONDS, min(CALL_SECONDS, left / 2))
            self._client = connect(self._seconds)
        return self._client

    def pause(self, *, progress: bool = False) -> None:
        """Wait before the next attempt: longer each time, until there is progress."""
        shortest, longest = _PAUSE_SECONDS
        left = self.seconds_left()
        self._pause = shortest if progress else self._pause
        longest = min(max(shortest, left * _PAUSE_SHARE), longest)
        self.wait(min(self._pause, longest))
        self._pause = min(self._pause * 2, _PAUSE_SECONDS[1])

    def wait(self, seconds: float) -> None:
        """Wait, but not beyond the deadline."""
        time.sleep(max(0.0, min(seconds, self.seconds_left())))

    def call(self, operation: Callable[[Client], T]) -> T:
        """Return the result of an operation; retry failures that may pass."""
        while True:
            client = self.client()
            try:
                result = operation(client)
            except (Refused, NotFound):
                raise
            except Exception as error:  # from the HTTP library that lightkube uses
                if is_final(error):
                    text = f"the Kubernetes API refused the request: {error_text(error)}"
                    raise Refused("Kubernetes", text) from error
                if not self._says_less(error):
                    self._failure.observe(error)
                self.renew_credentials(error)
            else:
                self._failure.ended()
                return result
            self.pause()

    def _says_less(self, error: Exception) -> bool:
        """Whether a call, shortened by the deadline, got no response, after one that says why."""
        is_short = self._seconds < CALL_SECONDS
        return is_short and not status_of(error) and bool(self._failure.text)

    def renew_credentials(self, error: Exception) -> None:
        """Let the next call read the credentials from their files, if this one's were refused."""
        if status_of(error) == HTTPStatus.UNAUTHORIZED:
            self.__exit__()


class LastingFailure:
    """A failure of the API: logged once when it lasts, not at each attempt."""

    def __init__(self) -> None:
        self.text = ""  # of the latest failure; empty after a success
        self._since = 0.0
        self._logged: set[tuple[object, ...]] = set()

    def observe(self, error: Exception) -> None:
        """Record a failure."""
        now = time.monotonic()
        self._since = self._since if self.text else now
        self.text = failure_text(error)
        status = status_of(error)
        kind = (status, *right_of(error)) if status == HTTPStatus.FORBIDDEN else (status,)
        if now - self._since >= LASTING_SECONDS and kind not in self._logged:
            self._logged.add(kind)
            log.warning("%s; still trying after %.0f s", self.text, now - self._since)

    def ended(self) -> None:
        """Record a success."""
        if self._logged:
            log.info("the Kubernetes API answers again")
        self.text = ""
        self._logged.clear()


def spread_seconds(rank: int, machines_a_second: float, longest: float) -> float:
    """Return how long a machine waits in a large group, so that not all call in one second."""
    return min(rank / machines_a_second, longest) if rank >= machines_a_second else 0.0


# --- Errors ---------------------------------------------------------------------------------------


def status_of(error: Exception) -> int:
    """Return the HTTP status of a failed call; 0 if there was no response."""
    return int(getattr(getattr(error, "response", None), "status_code", 0))


def is_missing(error: Exception) -> bool:
    """Whether the API knows that an object does not exist; it may not know a path yet."""
    details = getattr(getattr(error, "status", None), "details", None)
    return status_of(error) == HTTPStatus.NOT_FOUND and bool(getattr(details, "name", ""))


def is_final(error: Exception) -> bool:
    """Whether a retry cannot succeed."""
    status = status_of(error)
    if status == HTTPStatus.NOT_FOUND:
        return is_missing(error)
    return status not in _RETRIED and status < HTTPStatus.INTERNAL_SERVER_ERROR


def failure_text(error: Exception) -> str:
    """Describe a failed call, with the next step if rights are missing."""
    if isinstance(error, FairwarningError):
        return error.message
    text, status = error_text(error), status_of(error)
    if status == HTTPStatus.FORBIDDEN:
        verb, resource = right_of(error)
        right = f"the agent lacks the right to {verb} {resource}"
        return f"{right} ({text}): grant the rights in {RIGHTS}"
    if status == HTTPStatus.UNAUTHORIZED:
        return f"the Kubernetes API does not accept the agent's token ({text})"
    return f"the Kubernetes API failed: {text}"


def right_of(error: ApiFailure) -> tuple[str, str]:
    """Return the verb and the resource of a refused call."""
    words = [word for word in error.request.url.path.split("/") if word]
    words = words[words.index("v1") + 1 :] if "v1" in words else words
    if words[0] == "namespaces" and len(words) > 2:  # noqa: PLR2004  (namespaces/NAME/...)
        words = words[2:]
    resource = "/".join([words[0], *words[2:]])
    verbs = {"GET": "get" if len(words) > 1 else "list", "POST": "create", "PATCH": "patch"}
    return verbs.get(error.request.method, error.request.method.lower()), resource


def error_text(error: Exception) -> str:
    """Return an error's message on one line."""
    return " ".join(str(error).split()) or type(error).__name__
