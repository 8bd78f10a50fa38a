"""What machines, webhooks and Prometheus get, as outlines: the shapes of what a service sends."""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fairwarning.core.document import VERSIONS
from fairwarning.metadata import instance
from tests.docs.chapters.figures import agent_families
from tests.fixtures.endpoint import EVENTS
from tests.fixtures.http import Response, fetch
from tests.fixtures.receiver import ReceivedRequest, Receiver
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import wait_until
from tests.release.promises.outline import Outline, outline_of

_SAMPLE = re.compile(r"(\w+)(?:{(.*)})? ")
_TYPE = re.compile(r"# TYPE (\w+) (\w+)")
_CLIENTS = {"accept-encoding", "connection", "content-length", "host", "user-agent"}
"""Headers that say nothing about us."""
_NAMES: dict[type, str] = {str: "text", bool: "boolean", int: "number", float: "number"}


def shape(samples: Sequence[Any]) -> Outline:
    """Return the members of objects with their types; `optional` if not every object has them."""
    names = sorted({name for sample in samples for name in sample})
    outline: Outline = {}
    for name in names:
        values = [sample[name] for sample in samples if name in sample]
        optional = "" if len(values) == len(samples) else ", optional"
        outline[f"{name}: {_kind(values)}{optional}"] = _parts(values)
    return outline


def _kind(values: Sequence[Any]) -> str:
    kinds = sorted({_kind_of(value) for value in values})
    return " or ".join(kinds)


def _kind_of(value: object) -> str:
    if isinstance(value, list):
        return f"array of {_kind(value)}" if value else "array"
    return "object" if isinstance(value, Mapping) else _NAMES.get(type(value), "null")


def _parts(values: Sequence[Any]) -> Outline:
    objects = [value for value in values if isinstance(value, Mapping)]
    lists = [value for value in values if isinstance(value, list)]
    objects += [item for items in lists for item in items if isinstance(item, Mapping)]
    return shape(objects)


# --- The metadata endpoint ------------------------------------------------------------------------


def metadata() -> Outline:
    """Return the documents of each api-version, with the types of events that it shows."""
    observed = observe()
    outline: Outline = {"error": shape([observed.error.json])}
    for version, documents in observed.documents.items():
        outline[f"scheduled events {version}"] = {
            **{f"header {name}": {} for name in sorted(documents[0].headers)},
            **{f"event type {kind}": {} for kind in sorted(VERSIONS[version].types)},
            **shape([document.json for document in documents]),
        }
    before: set[str] = set()
    for version, response in observed.instances.items():
        members = set(_leaves(shape([response.json])))
        added = [f"since then {member}" for member in sorted(members - before)]
        removed = [f"until then {member}" for member in sorted(before - members)]
        outline[f"instance {version}"] = outline_of([*added, *removed])
        before = members
    return outline


def _leaves(outline: Outline, path: str = "") -> Iterator[str]:
    for line, parts in outline.items():
        yield from _leaves(parts, f"{path}{line.split(':')[0]}/") if parts else [f"{path}{line}"]


# --- Webhooks -------------------------------------------------------------------------------------


def webhooks() -> Outline:
    """Return the headers and the envelope of a message, and the data of each type."""
    messages = observe().messages
    by_type: dict[str, list[Any]] = {}
    for post in messages:
        by_type.setdefault(post.json["type"], []).append(post.json["data"])
    headers = sorted(messages[0].headers.keys() - _CLIENTS)
    members = shape([post.json for post in messages])
    return {
        "POST": {
            **outline_of(f"header {name}" for name in headers),
            "object": {line: {} for line in members},
        },
        **{f"data of {kind}": shape(by_type[kind]) for kind in sorted(by_type)},
    }


# --- Health and metrics --------------------------------------------------------------------------


def health() -> Outline:
    """Return what monitoring reads from the console, without a token."""
    return {
        f"GET {path}: {response.status}": {
            f"content-type: {response.headers['content-type']}": {},
            **(shape([response.json]) if "json" in response.headers["content-type"] else {}),
        }
        for path, response in observe().health.items()
    }


def metrics() -> Outline:
    """Return the metrics of a running service and those of the agent, with their labels."""
    outline = {**_service_metrics(observe().health["/metrics"].text)}
    for family in agent_families():
        outline[f"{family.name}: {family.kind}"] = outline_of(f"label {n}" for n in family.labels)
    return dict(sorted(outline.items()))


def _service_metrics(text: str) -> Outline:
    labels: dict[str, set[str]] = {}
    for name, pairs in _SAMPLE.findall(text):
        labels.setdefault(name, set()).update(re.findall(r"(\w+)=\"", pairs))
    return {
        f"{name}: {kind}": outline_of(f"label {label}" for label in sorted(labels.get(name, ())))
        for name, kind in _TYPE.findall(text)
        if name.startswith("fairwarning_")
    }


# --- A real service in which every kind of change happens, and what it sends meanwhile ------------


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
            assert _document(service, "2024-07-09", "spot").status == 200
            service.json("machine", "recommend", "spot")
            service.advance(_RECOMMENDATION_SECONDS)
            error = _refuse(service)
            wait_until(lambda: _has_all_changes(receiver), "a message about each kind of change")
            return Observations(
                documents=documents,
                instances={
                    version: service.get("spot", f"/metadata/instance?api-version={version}")
                    for version in instance.VERSIONS
                },
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


def _refuse(service: ServiceProcess) -> Response:
    """Make the endpoint refuse a request and inject a fault, which metrics count by label."""
    error = fetch(f"{service.machine_url('web')}{EVENTS}")
    assert error.status == 400
    assert service.api("POST", "/api/faults", {"kind": "500", "count": 1}).status == 204
    assert service.get("web").status == 500
    return error


def _document(service: ServiceProcess, version: str, machine: str = "web") -> Response:
    return service.get(machine, f"{EVENTS}?api-version={version}")


def _has_all_changes(receiver: Receiver) -> bool:
    arrived = {post.json["type"] for post in receiver.posts}
    return arrived >= {f"com.fairwarning.event.{change}" for change in CHANGES}
