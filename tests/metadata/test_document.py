"""The document on the wire: paths, parameters and versions (M1, M2, M6 to M11)."""

from collections.abc import Iterator

import pytest

from fairwarning.core.commands import CreateScope, Delete, Evict, Maintain, Operate, Recommend
from fairwarning.core.document import document
from fairwarning.core.model import Machine, Priority, ScopeKind
from fairwarning.service.config.settings import MetadataSettings
from tests.fixtures.endpoint import EVENTS, POLL_TARGET, EndpointHarness, approval
from tests.metadata.conftest import EMPTY, METADATA, VERSIONS

PREVIEW = "2024-07-09"
PLANS: dict[str, type[Operate]] = {
    "host": Maintain,
    "cheap": Evict,
    "leaver": Delete,
    "cheaper": Recommend,
}


@pytest.fixture
def endpoint() -> Iterator[EndpointHarness]:
    """Yield an endpoint that knows every version."""
    with EndpointHarness(MetadataSettings(preview=True)) as endpoint:
        yield endpoint


def _one_of_each(endpoint: EndpointHarness) -> None:
    """Announce an event of each type, one of which has started."""
    for machine, action in PLANS.items():
        endpoint.do(action(scope="s", operation=machine, machines=(machine,)))
    endpoint.approve("host", next(iter(endpoint.scope("s").events)))


@pytest.mark.spec("M1", "M2", "M6", "M7", "M8", "M9", "M11")
@pytest.mark.parametrize("version", [*VERSIONS, PREVIEW])
def test_each_version_has_its_document(endpoint: EndpointHarness, version: str) -> None:
    """That of `tests/core/test_document.py`; the incarnation is the scope's in every version."""
    machines = (
        Machine(name="host"),
        Machine(name="cheap", priority=Priority.SPOT),
        Machine(name="cheaper", priority=Priority.SPOT),
        Machine(name="leaver", terminate_seconds=300),
    )
    endpoint.create(CreateScope(scope="s", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
    assert endpoint.get("cheap", version).body == EMPTY
    _one_of_each(endpoint)
    response = endpoint.get("cheap", version)
    assert (response.status, response.headers["etag"]) == (200, '"6"')
    assert response.headers["content-type"].split(";")[0] == "application/json"
    assert response.headers["content-length"] == str(len(response.body))
    assert response.body == document(endpoint.scope("s"), version)


@pytest.mark.spec("M1")
@pytest.mark.parametrize("path", ["scheduledEvents", "ScheduledEvents/", "SCHEDULEDEVENTS"])
def test_path_ignores_case_and_trailing_slash(endpoint: EndpointHarness, path: str) -> None:
    """Upper case and a trailing slash make no difference, for GET and for POST."""
    endpoint.make("db")
    target = f"/METADATA/{path}?api-version=2020-07-01"
    assert endpoint.send_from("db_0", "GET", target, METADATA).body == EMPTY
    body = approval(endpoint.restart("db_0").id)
    assert endpoint.send_from("db_0", "POST", target, METADATA, body).status == 200


@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    "target",
    [
        f"{POLL_TARGET}&format=json",
        f"{POLL_TARGET}&format=text",
        f"{EVENTS}?extended=true&api-version=2020-07-01",
        f"{POLL_TARGET}&bare",
        f"{POLL_TARGET}&a=1&b=%26c%3D2&empty=",
        f"{EVENTS}?api-version=2020%2D07%2D01",
    ],
)
def test_unknown_parameters_are_ignored(endpoint: EndpointHarness, target: str) -> None:
    """Other query parameters change neither the document nor its type."""
    endpoint.make("db")
    response = endpoint.send_from("db_0", "GET", target, METADATA)
    assert (response.status, response.body) == (200, EMPTY)
    assert response.headers["content-type"] == endpoint.get("db_0").headers["content-type"]
