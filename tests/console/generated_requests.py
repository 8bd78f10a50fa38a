"""Requests that schemathesis generates from the OpenAPI document, and the check of each response.

A module of its own: schemathesis takes long to import, and every worker imports all test modules.
"""

from functools import cache
from typing import Any
from urllib.parse import urlsplit

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from fairwarning.console.api import openapi
from tests.fixtures.console import HOST, ConsoleHarness

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@cache
def schema() -> Any:  # noqa: ANN401  (not typed)
    """Return the document as schemathesis reads it."""
    return schemathesis.openapi.from_dict(openapi.document())


def send_generated(console: ConsoleHarness, operation_id: str, examples: int) -> None:
    """Send valid and invalid requests of an operation; an undocumented response is an error."""
    operation = schema().find_operation_by_id(operation_id)
    _send(console, operation, GenerationMode.POSITIVE, examples)
    if _can_be_invalid(operation):
        _send(console, operation, GenerationMode.NEGATIVE, examples)


def _send(
    console: ConsoleHarness,
    operation: Any,  # noqa: ANN401  (not typed)
    mode: GenerationMode,
    examples: int,
) -> None:
    @settings(
        max_examples=examples,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(mode))
    def attempt(case: Any) -> None:  # noqa: ANN401  (any JSON)
        case.validate_response(_respond(console, case), checks=CHECKS)

    attempt()


def _can_be_invalid(operation: Any) -> bool:  # noqa: ANN401  (any JSON)
    return bool(list(operation.iter_parameters()) or operation.body)


def _respond(console: ConsoleHarness, case: Any) -> Response:  # noqa: ANN401  (any JSON)
    kwargs = case.as_transport_kwargs(base_url=f"http://{HOST}")
    kwargs.pop("cookies", None)
    prepared = requests.Request(**kwargs).prepare()
    prepared.headers["Authorization"] = f"Bearer {console.token}"
    headers = [("Host", HOST), *((k, _text(v)) for k, v in prepared.headers.items())]
    url = urlsplit(prepared.url or "")
    target = f"{url.path}?{url.query}" if url.query else url.path
    body = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body or b""
    assert isinstance(body, bytes)
    reply = console.send(prepared.method or "GET", target, headers, body)
    response_headers = {name: [value] for name, value in reply.headers.items()}
    return Response(reply.status, response_headers, reply.body, prepared, 0.0, verify=False)


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
