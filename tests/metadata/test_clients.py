"""The requests in Azure's documentation, sent by the programs that it uses (M1, M12, M19)."""

import json

import pytest

from tests.fixtures.endpoint import EVENTS, EndpointHarness, approval
from tests.fixtures.programs import run_program
from tests.fixtures.requirements import needs_curl


def _url(endpoint: EndpointHarness, machine: str, target: str) -> str:
    host, port = endpoint.address(machine)
    return f"http://{host}:{port}{target}"


def _curl(endpoint: EndpointHarness, target: str, *options: str) -> str:
    """Return what curl prints for a request of `db_0`."""
    command = ["curl", "--silent", "--show-error", "--noproxy", "*", "--max-time", "20", *options]
    command.append(_url(endpoint, "db_0", target))
    return run_program(*command, check=True).stdout


@needs_curl
@pytest.mark.spec("M1", "M12", "M19")
@pytest.mark.parametrize("version", ["2017-03-01", "2019-01-01", "2020-07-01"])
def test_curl_reads_and_approves(endpoint: EndpointHarness, version: str) -> None:
    """`curl -H Metadata:true URL`, then `curl -X POST -d '...'`, which sends a form type."""
    endpoint.make("db")
    target = f"{EVENTS}?api-version={version}"
    first = json.loads(_curl(endpoint, target, "-H", "Metadata:true"))
    assert first == {"DocumentIncarnation": 1, "Events": []}
    endpoint.restart("db_0")
    (event,) = json.loads(_curl(endpoint, target, "-H", "Metadata:true"))["Events"]
    body = approval(event["EventId"].lower(), DocumentIncarnation="5")
    code = ("-w", "%{http_code}")
    assert _curl(endpoint, target, "-H", "Metadata:true", "-X", "POST", "-d", body, *code) == "200"
    (event,) = json.loads(_curl(endpoint, target, "-H", "Metadata:true"))["Events"]
    assert event["EventStatus"] == "Started"
    name = "/metadata/instance/compute/name?api-version=2017-08-01&format=text"
    assert _curl(endpoint, name, "-H", "Metadata:true") == "db_0"
