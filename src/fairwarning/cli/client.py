"""Speaks to the console of the service of a data folder."""

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from fairwarning.cli.local import OPERATOR, START, read_ready
from fairwarning.core.errors import FairwarningError, NotFound, Refused, Unavailable
from fairwarning.service.settings import TENANT
from fairwarning.service.tokens import Tokens, key_of

_TOKEN_SECONDS = 300
_SECONDS = 60.0  # an advance of virtual time may have a lot to do


def ask(folder: Path, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401  (JSON)
    """The answer of the console; what it refuses is raised as the service raised it."""
    console = read_ready(folder)["console"]
    token = Tokens(key_of(folder), TENANT).access(OPERATOR, _TOKEN_SECONDS)
    status, answer = send(console, method, path, token, body)
    if status < http.client.BAD_REQUEST:
        return answer
    raise _error(status, answer)


def send(
    console: str, method: str, path: str, token: str = "", body: object = None
) -> tuple[int, Any]:
    """Status and answer of one request."""
    where = urlsplit(console)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=_SECONDS)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None
    except (OSError, ValueError, http.client.HTTPException) as error:
        text_ = f"the service does not answer at {console} ({error}); {START}"
        raise Unavailable("NotUp", text_) from error
    finally:
        connection.close()


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
