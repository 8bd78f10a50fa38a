"""The OpenAPI document matches the API: its routes, its file in docs/, and its responses."""

import json
import re
from pathlib import Path

import pytest
from starlette.routing import Route

from fairwarning.console.api import openapi
from tests.campaigns import split
from tests.fixtures.console import ConsoleHarness

pytestmark = pytest.mark.spec("C4")

FILE = Path(__file__).parents[2] / "docs" / "openapi.json"


def test_the_file_in_docs_is_current() -> None:
    """Regenerate it with `python -m fairwarning.console.api.openapi > docs/openapi.json`."""
    assert FILE.read_text("utf-8") == openapi.text(), test_the_file_in_docs_is_current.__doc__


def test_the_service_serves_its_document(console: ConsoleHarness) -> None:
    """It is the generated document."""
    assert console.ok("GET", "/api/openapi.json") == json.loads(openapi.text())


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


def test_the_document_is_well_formed() -> None:
    """It is valid OpenAPI 3.1, and operation ids are unique."""
    from tests.console.generated_requests import schema  # noqa: PLC0415  (slow to import)

    schema().validate()
    operations = re.findall(r'"operationId": "(\w+)"', openapi.text())
    assert len(operations) == len(set(operations))


EXCLUDED = {"get_stream", "post_webhooks", "post_webhooks_by_name_test"}
"""The stream has no end; the webhook endpoints would send requests to other hosts."""
OPERATIONS = [
    operation["operationId"]
    for item in openapi.document()["paths"].values()
    for operation in item.values()
    if operation["operationId"] not in EXCLUDED
]


@pytest.mark.parametrize("examples", split([2, 20], 1))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_generated_requests_get_documented_responses(operation: str, examples: int) -> None:
    """Valid and invalid requests get no server error, and every response matches its schema."""
    from tests.console.generated_requests import send_generated  # noqa: PLC0415  (slow to import)

    with ConsoleHarness() as console:
        console.created("machines", name="vm")
        console.created("sets", name="web", capacity=2, terminate_notice="PT5M")
        console.poll("vm", "web_0")
        console.act("vm", "freeze", key="op")
        console.ok("POST", "/api/rollouts", {"id": "r", "sets": ["web"]})
        send_generated(console, operation, examples)
