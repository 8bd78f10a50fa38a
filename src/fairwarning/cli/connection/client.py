"""Client for the operator API of a service, on this host or on another."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import click

from fairwarning.cli.connection.target import LocalService, RemoteService, ServiceTarget
from fairwarning.core.errors import FairwarningError, NotFound, Refused, Unavailable
from fairwarning.core.printable import printable

_TIMEOUT_SECONDS = 60.0  # advancing a virtual clock may trigger a lot of work
_STREAM_TIMEOUT_SECONDS = 45.0  # the stream sends a message at least every 15 s
_RESTART_SECONDS = 30.0  # long enough for the service to restart
_RETRY_SECONDS = 0.5
_PAGE = 1000  # the service's largest page
_OK = 200
_NO_CONTENT = 204
_BAD_REQUEST = 400
_UNAUTHORIZED = 401
_SHORTEST_ID = 4  # characters of an abbreviated id
_ID_LENGTHS = {"event": 36, "operation": 32, "token": 16}
_MATCHES = 5  # named if an id is ambiguous

Result = TypeVar("Result")


LINE, CLOCK = "line", "clock"
LOST, BACK = "lost", "back"  # about the connection; LOST has the time of the last data
_ALIVE = "alive"  # sent while nothing happens


class StreamMessage(NamedTuple):
    """A line of the journal, a change of the clock, or a loss or return of the connection."""

    name: str
    number: int  # of the journal line; 0 for other messages
    data: dict[str, Any]


def ask(
    service: ServiceTarget,
    method: str,
    path: str,
    body: object = None,
    *,
    seconds: float = _TIMEOUT_SECONDS,
) -> Any:  # noqa: ANN401  (JSON)
    """Send a request to the console and return the answer; raise the service's error."""
    status, answer = send(service, method, path, body, seconds=seconds)
    if status == _UNAUTHORIZED and isinstance(service, LocalService):
        time.sleep(_RETRY_SECONDS)  # the service replaces a revoked start token at once
        status, answer = send(service, method, path, body, seconds=seconds)
    if status < _BAD_REQUEST:
        return answer
    raise _error(service, status, answer)


def send(
    service: ServiceTarget,
    method: str,
    path: str,
    body: object = None,
    *,
    seconds: float = _TIMEOUT_SECONDS,
    needs_token: bool = True,
) -> tuple[int, Any]:
    """Send one request, with a token if it needs one; return its status and JSON answer."""
    from fairwarning.cli.connection.transport import response_to  # noqa: PLC0415  (slow; --help needs none)

    address = service.address()
    if not needs_token:
        address = address._replace(token="")
    elif not address.token and isinstance(service, RemoteService):
        raise Refused("NoToken", service.with_token_step(f"there is no token for {address.url}"))
    text = None if body is None else json.dumps(body)
    with response_to(service, address, method, path, body=text, seconds=seconds) as response:
        return response.status, _read_json(address.url, response.status, response.read())


def _read_json(url: str, status: int, content: bytes) -> Any:  # noqa: ANN401  (JSON)
    class Answer(dict[str, Any]):
        """A JSON object of a console, which sends all members that a command reads."""

        def __missing__(self, _: str) -> None:
            raise _not_a_console(url, status)

    try:
        answer = json.loads(b"{}" if status == _NO_CONTENT else content, object_hook=Answer)
    except ValueError:
        answer = None
    if not isinstance(answer, Answer):
        raise _not_a_console(url, status)
    return answer


def _not_a_console(url: str, status: int) -> Unavailable:
    text = f"{url} answers, but not as a console of Fairwarning does (status {status}); check"
    return Unavailable("NotAConsole", f"{text} its host and port")


def _error(service: ServiceTarget, status: int, answer: dict[str, Any]) -> FairwarningError:
    """Return the error to raise; its text comes from another host and may be printed."""
    error = answer["error"]
    if not isinstance(error, dict):
        return _not_a_console(service.address().url, status)
    code = printable(str(error["code"]))
    message = printable(str(error["message"]), keep="\n")
    if status == _UNAUTHORIZED:
        return Refused(code, service.with_token_step(message))
    if status == NotFound.status:
        return NotFound(code, message)
    if status < Unavailable.status:
        return Refused(code, message)
    return Unavailable(code, message)


def api_path(*parts: str) -> str:
    """Return a path of the API; names are quoted."""
    return "/".join(["/api", *(quote(part, safe="") for part in parts)])


class ListRead(NamedTuple):
    """Items of a list, and how many there are in all, if the service counts them."""

    items: list[Any]
    total: int | None


def read_list(
    service: ServiceTarget,
    collection: str,
    most: int | None = None,
    member: str = "",
    cursor: str = "after",
    /,
    **query: str | None,
) -> ListRead:
    """Read a collection page by page: all of it, or the first `most` items.

    `member` of a page has the items, and `cursor` is the parameter that continues after it.
    """
    filters = {name: value for name, value in query.items() if value}
    items: list[Any] = []
    total: int | None = None
    after: object = None
    while most is None or len(items) < most:
        limit = _PAGE if most is None else min(_PAGE, most - len(items))
        position = {} if after is None else {cursor: str(after)}
        parameters = filters | {"limit": str(limit)} | position
        page = ask(service, "GET", f"/api/{collection}?{urlencode(parameters)}")
        items += page[member or collection]
        total, after = page.get("total"), page["next"]
        if after is None:
            break
    return ListRead(items, total)


def list_all(service: ServiceTarget, collection: str, **query: str | None) -> list[Any]:
    """Read a whole collection."""
    return read_list(service, collection, None, **query).items


# --- Ids, which users may abbreviate to their first characters -----------------------------------


def full_id(service: ServiceTarget, noun: str, prefix: str) -> str:
    """Return the id of the event, operation, rollout or token that begins so.

    Ids of full length are not looked up: an event may be over.
    """
    if len(prefix) >= _ID_LENGTHS.get(noun, 10**6):
        return prefix.upper() if noun == "event" else prefix
    if noun == "token":
        items = list_all(service, "tokens")
    else:
        items = read_list(service, f"{noun}s", _MATCHES, prefix=prefix).items
    matches = [str(item["id"]) for item in items if item["id"].lower().startswith(prefix.lower())]
    if prefix in matches:  # an operation may have an idempotency key as its id
        return prefix
    if len(prefix) < _SHORTEST_ID and noun != "rollout":  # users name rollouts
        text = f"{noun} id {prefix!r} is too short; give at least {_SHORTEST_ID} characters"
        raise click.UsageError(text)
    if len(matches) > 1:
        text = f"{noun} id {prefix!r} is ambiguous; it matches {', '.join(matches[:_MATCHES])}"
        raise click.UsageError(text)
    if not matches:
        active = "active " if noun == "event" else ""
        hint = service.command_line(f"{noun} list")
        text = f"no {active}{noun} has an id starting with {prefix!r}; run `{hint}`"
        raise NotFound(f"Unknown{noun.title()}", text)
    return matches[0]


# --- The stream ----------------------------------------------------------------------------------


def newest(service: ServiceTarget) -> int:
    """Return the number of the last journal line."""
    lines = ask(service, "GET", "/api/journal?newest=true&limit=1")["lines"]
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


def stream(service: ServiceTarget, after: int) -> Iterator[StreamMessage]:
    """Yield every message after a journal line, forever; reconnect when the service restarts."""
    heard = time.time()  # of the last data
    deadline: float | None = None  # while there is no connection
    while True:
        try:
            if newest(service) < after:  # a new service with a new journal
                after = 0
            if deadline:
                yield StreamMessage(BACK, 0, {})
                deadline = None
            for message in _read_stream(service, after):
                after, heard = message.number or after, time.time()
                if message.name != _ALIVE:
                    yield message
        except Unavailable:
            if deadline is None:
                deadline = time.monotonic() + _RESTART_SECONDS
                yield StreamMessage(LOST, 0, {"at": heard})
            elif time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)


def _read_stream(service: ServiceTarget, after: int) -> Iterator[StreamMessage]:
    """Yield the messages of one connection."""
    from fairwarning.cli.connection.transport import response_to  # noqa: PLC0415  (see send)

    address = service.address()
    headers = {"Last-Event-ID": str(after)}
    with response_to(
        service, address, "GET", "/api/stream", headers=headers, seconds=_STREAM_TIMEOUT_SECONDS
    ) as response:
        if response.status != _OK:
            answer = _read_json(address.url, response.status, response.read())
            raise _error(service, response.status, answer)
        yield from _parse(response)
        raise EOFError("the stream ended")


def _parse(lines: Iterable[bytes]) -> Iterator[StreamMessage]:
    """Parse server-sent events; an empty line ends each."""
    fields: dict[str, str] = {}
    for raw in lines:
        line = raw.decode().rstrip("\r\n")
        name, _, value = line.partition(":")
        if line:
            fields[name] = value.removeprefix(" ")  # a comment has an empty name
            continue
        number, data = int(fields.get("id") or 0), fields.get("data", "{}")
        yield StreamMessage(fields.get("event", _ALIVE), number, json.loads(data))
        fields = {}
