"""What machines, webhooks and Prometheus get, as outlines: the shapes of what a service sends."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairwarning.core.document import VERSIONS
from tests.docs.chapters.figures import agent_families
from tests.fixtures.receiver import ReceivedRequest
from tests.release.promises.live_service import FORMS, message_type, observe
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
    """Return the envelope of each form, and the data of each type, which both forms share."""
    messages = observe().messages
    outline: Outline = {form: _form(messages, form) for form in FORMS}
    by_type: dict[str, list[Any]] = {}
    for post in messages:
        if post.method == "POST":
            by_type.setdefault(message_type(post), []).append(_envelope(post)["data"])
    data = {f"data of {kind}": shape(by_type[kind]) for kind in sorted(by_type)}
    return outline | data


def _form(messages: Sequence[ReceivedRequest], form: str) -> Outline:
    own = [message for message in messages if message.path == f"/{form}"]
    outline: Outline = {}
    for method in sorted({message.method for message in own}):
        requests = [message for message in own if message.method == method]
        headers = sorted(requests[0].headers.keys() - _CLIENTS)
        outline[method] = outline_of(f"header {name}" for name in headers)
        bodies = [request.json for request in requests if request.body]
        if bodies:
            container = "array of one object" if isinstance(bodies[0], list) else "object"
            members = shape([_envelope(request) for request in requests])
            outline[method][container] = {line: {} for line in members}
    return outline


def _envelope(post: ReceivedRequest) -> dict[str, Any]:
    message: Any = post.json
    envelope: dict[str, Any] = message[0] if isinstance(message, list) else message
    return envelope


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
