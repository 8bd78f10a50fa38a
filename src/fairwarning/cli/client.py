"""HTTP client for the console of the service that owns a data folder."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from fairwarning.core.errors import FairwarningError, NotFound, Refused, Unavailable
from fairwarning.server.hints import start_hint
from fairwarning.server.ready import read_ready

_TIMEOUT_SECONDS = 60.0  # advancing a virtual clock may trigger a lot of work
_STREAM_TIMEOUT_SECONDS = 45.0  # the stream sends a message at least every 15 s
_RESTART_SECONDS = 30.0  # long enough for the service to restart
_RETRY_SECONDS = 0.5
_PAGE = 1000  # the service's largest page
_BAD_REQUEST = 400
_UNAUTHORIZED = 401

Result = TypeVar("Result")


class StreamMessage(NamedTuple):
    """One message of the stream: a `line` of the journal, or a change of the `clock`."""

    name: str
    number: int  # of the journal line; 0 for a clock message
    data: dict[str, Any]


def ask(
    folder: Path, method: str, path: str, body: object = None, *, seconds: float = _TIMEOUT_SECONDS
) -> Any:  # noqa: ANN401  (JSON)
    """Send a request to the console and return the answer; raise the service's error."""
    console, token = _address(folder)
    status, answer = send(folder, console, method, path, token, body=body, seconds=seconds)
    if status == _UNAUTHORIZED:  # the service replaces a revoked start token at once
        time.sleep(_RETRY_SECONDS)
        console, token = _address(folder)
        status, answer = send(folder, console, method, path, token, body=body, seconds=seconds)
    if status < _BAD_REQUEST:
        return answer
    raise _error(status, answer)


def _address(folder: Path) -> tuple[str, str]:
    """Return the URL of the console and the start token, which the service renews."""
    ready = read_ready(folder)
    return ready["console"], ready["token"]


def send(
    folder: Path,
    console: str,
    method: str,
    path: str,
    token: str = "",
    *,
    body: object = None,
    seconds: float = _TIMEOUT_SECONDS,
) -> tuple[int, Any]:
    """Send one request; return its status and JSON answer."""
    import http.client  # noqa: PLC0415  (slow to import, and --help does not need it)

    url = urlsplit(console)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=seconds)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _not_up(folder, console, error) from error
    finally:
        connection.close()


def _not_up(folder: Path, console: str, error: Exception) -> Unavailable:
    text = f"no answer from the service at {console} ({error}); {start_hint(folder)}"
    return Unavailable("NotUp", text)


def _error(status: int, answer: object) -> FairwarningError:
    error = answer.get("error", {}) if isinstance(answer, dict) else {}
    code, message = error.get("code", str(status)), error.get("message", f"status {status}")
    if status == NotFound.status:
        return NotFound(code, message)
    if status < Unavailable.status:
        return Refused(code, message)
    return Unavailable(code, message)


def quoted(name: str) -> str:
    """Quote a name for use as a path segment."""
    return quote(name, safe="")


def list_all(
    folder: Path, collection: str, most: int | None = None, **query: str | None
) -> list[Any]:
    """Read machines, sets, events or rollouts page by page: all of them, or the first `most`."""
    filters = {name: value for name, value in query.items() if value}
    items: list[Any] = []
    after: object = None
    while most is None or len(items) < most:
        limit = _PAGE if most is None else min(_PAGE, most - len(items))
        cursor = {} if after is None else {"after": str(after)}
        parameters = filters | {"limit": str(limit)} | cursor
        page = ask(folder, "GET", f"/api/{collection}?{urlencode(parameters)}")
        items += page[collection]
        after = page["next"]
        if after is None:
            break
    return items


# --- The stream ----------------------------------------------------------------------------------


def newest(folder: Path) -> int:
    """Return the number of the last journal line."""
    lines = ask(folder, "GET", "/api/journal?newest=true&limit=1")["lines"]
    return int(lines[0]["number"]) if lines else 0


def retry_while_down(call: Callable[[], Result]) -> Result:
    """Return the result of `call`; retry while the service restarts."""
    deadline = time.monotonic() + _RESTART_SECONDS
    while True:
        try:
            return call()
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)


def stream(folder: Path, after: int) -> Iterator[StreamMessage]:
    """Yield every message after a journal line, forever; reconnect when the service restarts."""
    while True:
        if retry_while_down(lambda: newest(folder)) < after:  # a new service with a new journal
            after = 0
        try:
            for message in _read_stream(folder, after):
                after = message.number or after
                yield message
        except Unavailable:
            time.sleep(_RETRY_SECONDS)


def _read_stream(folder: Path, after: int) -> Iterator[StreamMessage]:
    """Yield the messages of one connection."""
    import http.client  # noqa: PLC0415  (see send)

    console, token = _address(folder)
    url = urlsplit(console)
    connection = http.client.HTTPConnection(
        url.hostname or "", url.port, timeout=_STREAM_TIMEOUT_SECONDS
    )
    headers = {"Authorization": f"Bearer {token}", "Last-Event-ID": str(after)}
    try:
        connection.request("GET", "/api/stream", None, headers)
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise _error(response.status, json.loads(response.read()))
        yield from _parse(response)
        raise EOFError("the stream ended")
    except (OSError, ValueError, EOFError, http.client.HTTPException) as error:
        raise _not_up(folder, console, error) from error
    finally:
        connection.close()


def _parse(lines: Iterable[bytes]) -> Iterator[StreamMessage]:
    """Parse server-sent events; an empty line ends each."""
    fields: dict[str, str] = {}
    for raw in lines:
        line = raw.decode().rstrip("\r\n")
        name, _, value = line.partition(":")
        if line:
            fields[name] = value.removeprefix(" ")  # a comment has an empty name
            continue
        if "data" in fields:
            number = int(fields.get("id") or 0)
            yield StreamMessage(fields.get("event", ""), number, json.loads(fields["data"]))
        fields = {}
