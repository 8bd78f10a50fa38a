"""Speaks to the console of the service of a data folder."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from fairwarning.core.errors import FairwarningError, NotFound, Refused, Unavailable
from fairwarning.server.ready import OPERATOR, START, read_ready
from fairwarning.service.config.settings import TENANT
from fairwarning.service.tokens import Tokens, signing_key

_TOKEN_SECONDS = 300
_SECONDS = 60.0  # an advance of virtual time may have a lot to do
_SILENCE_SECONDS = 45.0  # a stream says something every 15
_PATIENCE_SECONDS = 30.0  # a service that is started again is back by then
_AGAIN_SECONDS = 0.5
_PAGE = 1000  # as many as the service gives at once
_BAD_REQUEST = 400

Given = TypeVar("Given")


class StreamMessage(NamedTuple):
    """One message of the stream: a `line` of the journal, or the `clock` that somebody moved."""

    name: str
    number: int  # of the line; 0 where it is none
    data: dict[str, Any]


def ask(
    folder: Path, method: str, path: str, body: object = None, *, seconds: float = _SECONDS
) -> Any:  # noqa: ANN401  (JSON)
    """The answer of the console; what it refuses is raised as the service raised it."""
    console, token = _door(folder)
    status, answer = send(console, method, path, token, body, seconds=seconds)
    if status < _BAD_REQUEST:
        return answer
    raise _error(status, answer)


def _door(folder: Path) -> tuple[str, str]:
    """Where the console is, and a token for it."""
    console = read_ready(folder)["console"]
    return console, Tokens(signing_key(folder), TENANT).access(OPERATOR, _TOKEN_SECONDS)


def send(
    console: str,
    method: str,
    path: str,
    token: str = "",
    body: object = None,
    *,
    seconds: float = _SECONDS,
) -> tuple[int, Any]:
    """Status and answer of one request."""
    import http.client  # noqa: PLC0415  (takes its time, and --help needs none of it)

    where = urlsplit(console)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=seconds)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _not_up(console, error) from error
    finally:
        connection.close()


def _not_up(console: str, error: Exception) -> Unavailable:
    return Unavailable("NotUp", f"the service does not answer at {console} ({error}); {START}")


def _error(status: int, answer: object) -> FairwarningError:
    told = answer.get("error", {}) if isinstance(answer, dict) else {}
    code, message = told.get("code", str(status)), told.get("message", f"status {status}")
    if status == NotFound.status:
        return NotFound(code, message)
    if status < Unavailable.status:
        return Refused(code, message)
    return Unavailable(code, message)


def part(name: str) -> str:
    """A name as part of a path."""
    return quote(name, safe="")


def listed(folder: Path, what: str, most: int | None = None, **query: str | None) -> list[Any]:
    """Machines, sets, events or rollouts: all of them, page by page, or the first `most`."""
    given = {name: value for name, value in query.items() if value}
    found: list[Any] = []
    after: object = None
    while most is None or len(found) < most:
        limit = _PAGE if most is None else min(_PAGE, most - len(found))
        asked = given | {"limit": str(limit)} | ({} if after is None else {"after": str(after)})
        page = ask(folder, "GET", f"/api/{what}?{urlencode(asked)}")
        found += page[what]
        after = page["next"]
        if after is None:
            break
    return found


# --- The stream ----------------------------------------------------------------------------------


def newest(folder: Path) -> int:
    """The number of the journal's last line: what comes after it is new."""
    lines = ask(folder, "GET", "/api/journal?newest=true&limit=1")["lines"]
    return int(lines[0]["number"]) if lines else 0


def retry_while_down(call: Callable[[], Given]) -> Given:
    """What it gives; called again while the service is being started again."""
    given_up = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return call()
        except Unavailable:
            if time.monotonic() > given_up:
                raise
            time.sleep(_AGAIN_SECONDS)


def stream(folder: Path, after: int) -> Iterator[StreamMessage]:
    """Everything after a line, without an end; a service that is started again is found again."""
    while True:
        if retry_while_down(lambda: newest(folder)) < after:  # another one, or it has kept nothing
            after = 0
        try:
            for message in _connected(folder, after):
                after = message.number or after
                yield message
        except Unavailable:
            time.sleep(_AGAIN_SECONDS)


def _connected(folder: Path, after: int) -> Iterator[StreamMessage]:
    """The messages of one connection."""
    import http.client  # noqa: PLC0415  (see send)

    console, token = _door(folder)
    where = urlsplit(console)
    connection = http.client.HTTPConnection(
        where.hostname or "", where.port, timeout=_SILENCE_SECONDS
    )
    headers = {"Authorization": f"Bearer {token}", "Last-Event-ID": str(after)}
    try:
        connection.request("GET", "/api/stream", None, headers)
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise _error(response.status, json.loads(response.read()))
        yield from _messages(response)
        raise EOFError("the stream has ended")
    except (OSError, ValueError, EOFError, http.client.HTTPException) as error:
        raise _not_up(console, error) from error
    finally:
        connection.close()


def _messages(lines: Iterable[bytes]) -> Iterator[StreamMessage]:
    """Server-sent events, each read to its empty line."""
    fields: dict[str, str] = {}
    for raw in lines:
        line = raw.decode().rstrip("\r\n")
        name, _, value = line.partition(":")
        if line:
            fields[name] = value.removeprefix(" ")  # a comment has no name
            continue
        if "data" in fields:
            number = int(fields.get("id") or 0)
            yield StreamMessage(fields.get("event", ""), number, json.loads(fields["data"]))
        fields = {}
