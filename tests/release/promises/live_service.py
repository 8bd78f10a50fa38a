"""A real service in which every kind of change happens, and what it sends meanwhile."""

import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from fairwarning.core.document import VERSIONS
from fairwarning.metadata import instance
from tests.fixtures.endpoint import EVENTS
from tests.fixtures.http import Response, fetch
from tests.fixtures.receiver import ReceivedRequest, Receiver
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import wait_until

FLEET = """
[metadata]
preview = true

[console]
webhook_hosts = ["127.0.0.1"]

[[machine]]
name = "web"

[[machine]]
name = "spot"
priority = "Spot"
tags = { team = "web" }
"""
HEALTH = ("/healthz", "/readyz", "/metrics")
CHANGES = {"scheduled", "approved", "started", "ended", "cancelled", "lapsed"}
_RECOMMENDATION_SECONDS = 3600  # more than a recommendation lasts


class Observations(NamedTuple):
    """What a service has sent."""

    documents: dict[str, list[Response]]  # by api-version
    instances: dict[str, Response]  # by api-version
    error: Response  # of the metadata endpoint
    messages: list[ReceivedRequest]  # of all webhooks
    health: dict[str, Response]  # by path of the console that needs no token


@cache
def observe() -> Observations:
    """Run a service, once in a test run."""
    with tempfile.TemporaryDirectory() as folder, Receiver() as receiver:
        words = ("--memory", "--clock", "virtual")
        with ServiceProcess(Path(folder) / "data", *words, fleet=FLEET) as service:
            url = f"http://127.0.0.1:{receiver.port}/"
            service.ok("POST", "/api/webhooks", {"name": "hook", "url": url})
            service.ok("POST", "/api/webhooks/hook/test")
            documents = _restart(service)
            _recommend(service)
            error = _refuse(service)
            wait_until(lambda: _has_all_changes(receiver), "a message about each kind of change")
            return Observations(
                documents=documents,
                instances={version: _instance(service, version) for version in instance.VERSIONS},
                error=error,
                messages=list(receiver.requests),
                health={path: fetch(f"{service.ready['console']}{path}") for path in HEALTH},
            )


def _restart(service: ServiceProcess) -> dict[str, list[Response]]:
    """Cancel an event, and approve the next; return the documents on the way."""
    service.poll("web")
    service.json("machine", "restart", "web")
    (event,) = service.poll("web")["Events"]
    service.json("event", "cancel", event["EventId"])
    service.json("machine", "restart", "web")
    (event,) = service.poll("web")["Events"]
    documents = {version: [_document(service, version)] for version in VERSIONS}
    service.approve("web", event["EventId"])
    for version, read in documents.items():
        read.append(_document(service, version))
    service.advance(_RECOMMENDATION_SECONDS)
    return documents


def _recommend(service: ServiceProcess) -> None:
    """Let a recommendation expire."""
    assert _document(service, "2024-07-09", "spot").status == 200
    service.json("machine", "recommend", "spot")
    service.advance(_RECOMMENDATION_SECONDS)


def _refuse(service: ServiceProcess) -> Response:
    """Make the endpoint refuse a request and inject a fault, which metrics count by label."""
    error = fetch(f"{service.machine_url('web')}{EVENTS}")
    assert error.status == 400
    assert service.api("POST", "/api/faults", {"kind": "500", "count": 1}).status == 204
    assert service.get("web").status == 500
    return error


def _document(service: ServiceProcess, version: str, machine: str = "web") -> Response:
    return service.get(machine, f"{EVENTS}?api-version={version}")


def _instance(service: ServiceProcess, version: str) -> Response:
    return service.get("spot", f"/metadata/instance?api-version={version}")


def _has_all_changes(receiver: Receiver) -> bool:
    arrived = {post.json["type"] for post in receiver.posts}
    return arrived >= {f"com.fairwarning.event.{change}" for change in CHANGES}
