"""The OpenAPI document matches the API: its routes, its file in docs/, and its responses."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.routing import Route

from fairwarning.console.api import openapi
from fairwarning.testing.scenarios.bundled import BundledScenarios
from tests.campaigns import split
from tests.fixtures.console import HOST, ConsoleHarness

FILE = Path(__file__).parents[2] / "docs" / "openapi.json"


@pytest.mark.spec("C4")
def test_the_file_in_docs_is_current() -> None:
    """Regenerate it with `python -m fairwarning.console.api.openapi > docs/openapi.json`."""
    assert FILE.read_text("utf-8") == openapi.text(), test_the_file_in_docs_is_current.__doc__


@pytest.mark.spec("C4")
def test_the_service_serves_its_document() -> None:
    """It is the generated document."""
    with ConsoleHarness() as console:
        assert console.ok("GET", "/api/openapi.json") == json.loads(openapi.text())


@pytest.mark.spec("C4")
def test_every_route_is_documented_and_nothing_else() -> None:
    """Only the route of the document itself is left out."""
    with ConsoleHarness() as console:
        routes = {
            (method.lower(), re.sub(r":path}", "}", route.path))
            for route in console.app.routes
            if isinstance(route, Route) and route.path.startswith("/api/")
            for method in (route.methods or set()) - {"HEAD"}
        }
    documented = {
        (method, path) for path, item in openapi.document()["paths"].items() for method in item
    }
    assert routes == documented | {("get", openapi.PATH)}


@pytest.mark.spec("C4")
def test_the_document_is_well_formed() -> None:
    """It is valid OpenAPI 3.1; operation ids are unique, and all references resolve."""
    document = openapi.document()
    schemathesis.openapi.from_dict(document).validate()
    text = json.dumps(document)
    operations = re.findall(r'"operationId": "(\w+)"', text)
    assert len(operations) == len(set(operations))
    for reference in re.findall(r'"\$ref": "#/([^"]+)"', text):
        target: Any = document
        for part in reference.split("/"):
            target = target[part]
        assert target


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXCLUDED = {"get_stream", "post_webhooks", "post_webhooks_by_name_test"}
"""The stream has no end; the webhook endpoints would send requests to other hosts."""


def _operations() -> Iterator[Any]:
    for result in schemathesis.openapi.from_dict(openapi.document()).get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        name = operation.definition.raw["operationId"]
        if name not in EXCLUDED:
            yield pytest.param(operation, id=name)


@pytest.mark.spec("C4")
@pytest.mark.parametrize("examples", split([2, 20], 1))
@pytest.mark.parametrize("operation", [*_operations()])
def test_generated_requests_get_documented_responses(operation: Any, examples: int) -> None:  # noqa: ANN401  (not typed)
    """Valid and invalid requests get no server error, and every response matches its schema."""
    with ConsoleHarness(scenarios=BundledScenarios()) as console:
        console.created("machines", name="vm")
        console.created("sets", name="web", capacity=2, terminate_notice="PT5M")
        console.poll("vm", "web_0")
        console.act("vm", "freeze", key="op")
        console.ok("POST", "/api/rollouts", {"id": "r", "sets": ["web"]})
        for mode in GenerationMode.POSITIVE, GenerationMode.NEGATIVE:
            _send_generated(console, operation, mode, examples)


def _send_generated(
    console: ConsoleHarness,
    operation: Any,  # noqa: ANN401  (any JSON)
    mode: GenerationMode,
    examples: int,
) -> None:
    if mode is GenerationMode.NEGATIVE and not _can_be_invalid(operation):
        return

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
