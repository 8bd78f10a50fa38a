"""Ways to impersonate another machine. Each targets the tenant it names; all must fail."""

import json
from collections.abc import Callable, Mapping

from tests.hostile.probes_frames import END, chunk
from tests.hostile.tenants import Tenant
from tests.hostile.wire import GOOD, HOST, METADATA, TARGET, approval, get, head, post

Trick = Callable[[Tenant], bytes]
Both = Callable[[Tenant, Tenant], bytes]

_NAMING = (
    "Machine", "X-Machine", "X-Machine-Name", "X-Resource", "X-Vm-Id", "X-Scope", "Resource",
    "Metadata-Machine", "X-Ms-Client-Ip", "X-Original-Host", "X-Host", "From", "Origin", "Cookie",
    "Authorization", "X-Remote-Addr", "X-Original-Url", "X-Rewrite-Url",
)  # fmt: skip
_FORWARDING = ("X-Forwarded-For", "X_Forwarded_For", "x-real-ip", "Via", "X-Client-IP")
_QUERIES = ("machine", "resource", "name", "scope", "vmId", "host", "Resources", "eventId")


def _labelled(value: str) -> bytes:
    return get(*(f"{header}: {value}" for header in _NAMING))


def _asked(value: str) -> bytes:
    return get(target=TARGET + "".join(f"&{name}={value}" for name in _QUERIES))


def _forwarded(header: str) -> Trick:
    return lambda other: get(f"{header}: {other.address}")


READS: Mapping[str, Trick] = {
    "host": lambda other: head("GET", TARGET, f"Host: {other.address}", METADATA),
    "host-name": lambda other: head("GET", TARGET, f"Host: {other.machine}", METADATA),
    "metadata": lambda other: head("GET", TARGET, HOST, f"Metadata: {other.machine}"),
    "path-below": lambda other: get(target=f"/metadata/scheduledevents/{other.machine}"),
    "path-above": lambda other: get(target=f"/{other.scope}{TARGET}"),
    "path-dots": lambda other: get(target=f"/metadata/../{other.scope}{TARGET}"),
    "path-instance": lambda other: get(
        target=f"/metadata/instance/compute/{other.machine}?api-version=2021-02-01"
    ),
    "absolute": lambda other: get(target=f"http://{other.address}{TARGET}"),
    "userinfo": lambda other: get(target=f"http://{other.machine}@localhost{TARGET}"),
    "known": lambda other: get(f'If-None-Match: "{other.event}"'),
    "body": lambda other: get(f"Content-Length: {len(other.event)}") + other.event.encode(),
    "forwarded": lambda other: get(f"Forwarded: for={other.address};host={other.machine}"),
    "headers-name": lambda other: _labelled(other.machine),
    "headers-scope": lambda other: _labelled(other.scope),
    "headers-address": lambda other: _labelled(other.address),
    "headers-event": lambda other: _labelled(other.event),
    "query-name": lambda other: _asked(other.machine),
    "query-event": lambda other: _asked(other.event),
    **{f"forwarded-{name}": _forwarded(name) for name in _FORWARDING},
}
"""Attempts to read another machine's document."""


def _start(*events: str, **more: object) -> bytes:
    return json.dumps({**more, "StartRequests": [{"EventId": event} for event in events]}).encode()


def _chunked(body: bytes) -> bytes:
    return head("POST", TARGET, *GOOD, "Transfer-Encoding: chunked") + chunk(body) + END


def _hosted(other: Tenant) -> bytes:
    body = approval(other.event)
    size = f"Content-Length: {len(body)}"
    return head("POST", TARGET, f"Host: {other.address}", METADATA, size) + body


def _first_version(other: Tenant) -> bytes:
    body = approval(other.event)
    target = "/metadata/scheduledevents?api-version=2017-03-01"
    return head("POST", target, HOST, f"Content-Length: {len(body)}") + body


APPROVALS: Mapping[str, Both] = {
    "plain": lambda caller, other: post(approval(other.event)),
    "lower-case": lambda caller, other: post(approval(other.event.lower())),
    "own-first": lambda caller, other: post(approval(caller.event, other.event)),
    "own-last": lambda caller, other: post(approval(other.event, caller.event)),
    "own-around": lambda caller, other: post(approval(caller.event, other.event, caller.event)),
    "host": lambda caller, other: _hosted(other),
    "header": lambda caller, other: post(approval(other.event), f"X-Machine: {other.machine}"),
    "query": lambda caller, other: post(
        approval(other.event), target=f"{TARGET}&machine={other.machine}&scope={other.scope}"
    ),
    "body-fields": lambda caller, other: post(
        _start(other.event, Scope=other.scope, Resource=other.machine, scope=other.scope)
    ),
    "chunked": lambda caller, other: _chunked(approval(other.event)),
    "first-version": lambda caller, other: _first_version(other),
    "forwarded": lambda caller, other: post(
        approval(other.event), f"X-Forwarded-For: {other.address}"
    ),
    "path": lambda caller, other: post(
        approval(other.event), target=f"/metadata/scheduledevents/{other.event}"
    ),
    "absolute": lambda caller, other: post(
        approval(other.event), target=f"http://{other.address}{TARGET}"
    ),
}
"""Attempts to approve another machine's event."""
