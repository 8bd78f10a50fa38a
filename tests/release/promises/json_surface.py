"""The JSON that commands print with --json, and the events of the API's stream, as outlines.

From a real run of each command, and from a real stream. Most print types of the operator API, which
has their members.
"""

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairwarning.console.api import openapi
from fairwarning.guest.agent.check import AgentCheck, check_json
from fairwarning.testing.certify import report
from fairwarning.testing.certify.report import TrapResult
from fairwarning.testing.certify.traps import TRAPS
from tests.console.stream_client import open_stream
from tests.fixtures.console import ConsoleHarness
from tests.fixtures.receiver import Receiver
from tests.fixtures.service import ServiceProcess, run_command
from tests.fixtures.waiting import LIMIT_SECONDS
from tests.release.promises.outline import Outline, outline_of
from tests.release.promises.wire_surfaces import FLEET, shape

_FAILING = """
[[fleet.machine]]
name = "web"

[[step]]
expect = { machine = "web", power = "stopped" }
"""

Output = tuple[str, Any]
"""A command without its arguments, and the JSON that it printed."""


def json_output() -> Outline:
    """Return the type of what each command prints, or its members if the API has no such type."""
    return dict(_printed(*output) for output in _outputs())


def _printed(name: str, value: Any) -> tuple[str, Outline]:  # noqa: ANN401  (any JSON)
    items = value if isinstance(value, list) else [value]
    container = "array of " if isinstance(value, list) else ""
    (kind,) = {type_of(item) for item in items}
    return f"{name}: {container}{kind or 'object'}", {} if kind else shape(items)


def type_of(value: dict[str, Any]) -> str:
    """Return the type of the operator API with these members; empty if there is none."""
    schemas = openapi.document()["components"]["schemas"]
    members = {name: schema.get("properties", {}).keys() for name, schema in schemas.items()}
    return " or ".join(sorted(name for name, keys in members.items() if keys == value.keys()))


def _outputs() -> Iterator[Output]:
    with tempfile.TemporaryDirectory() as folder, Receiver() as receiver:
        words = ("--memory", "--clock", "virtual")
        with ServiceProcess(Path(folder) / "data", *words, fleet=FLEET) as service:
            yield "up", {**service.ready, "machines": {}}
            for part in (_machines, _events, _sets, _rollouts, _others):
                yield from part(service)
            yield from _webhooks(service, f"http://127.0.0.1:{receiver.port}/")
        yield from _without_service(folder)


def _machines(service: ServiceProcess) -> Iterator[Output]:
    run = service.json
    yield "machine create", run("machine", "create", "extra")
    yield "machine set-address", run("machine", "set-address", "extra", "10.0.0.9")
    yield "machine show", run("machine", "show", "extra")
    yield "machine list", run("machine", "list")
    yield "machine ACTION", run("machine", "restart", "extra")
    yield "machine explain", run("machine", "explain", "extra")
    yield "machine delete --dry-run", run("machine", "delete", "extra", "--dry-run")


def _events(service: ServiceProcess) -> Iterator[Output]:
    run = service.json
    service.advance(3600)
    service.poll("web")
    (accepted,) = run("machine", "restart", "web")
    (event,) = accepted["events"]
    yield "event list", run("event", "list")
    yield "event show", run("event", "show", event["id"])
    yield "event cancel", run("event", "cancel", event["id"])
    yield "event explain", run("event", "explain", event["id"])
    (accepted,) = run("machine", "restart", "web")
    yield "event approve", run("event", "approve", accepted["events"][0]["id"])
    operation = accepted["operation"]["id"]
    yield "operation list", run("operation", "list")
    yield "operation show", run("operation", "show", operation)
    yield "operation explain", run("operation", "explain", operation)


def _sets(service: ServiceProcess) -> Iterator[Output]:
    run = service.json
    yield "set create", run("set", "create", "pool", "--capacity", "2")
    yield "set list", run("set", "list")
    yield "set show", run("set", "show", "pool")
    yield "set update", run("set", "update", "pool", "--terminate-notice", "5m")
    yield "set upgrade", run("set", "upgrade", "pool")
    yield "set scale", run("set", "scale", "pool", "3")
    yield "set delete-instances --dry-run", run("set", "delete-instances", "pool", "0", "--dry-run")
    yield "set delete --dry-run", run("set", "delete", "pool", "--dry-run")


def _rollouts(service: ServiceProcess) -> Iterator[Output]:
    run = service.json
    yield "rollout start --dry-run", run("rollout", "start", "--dry-run")
    started = run("rollout", "start", "--yes")
    yield "rollout start", started
    yield "rollout list", run("rollout", "list")
    yield "rollout status", run("rollout", "status", started["id"])
    yield "rollout pause", run("rollout", "pause", started["id"])
    yield "rollout resume", run("rollout", "resume", started["id"])
    yield "rollout abort", run("rollout", "abort", started["id"], "--yes")


def _others(service: ServiceProcess) -> Iterator[Output]:
    run = service.json
    yield "clock COMMAND", run("clock", "show")
    assert service.run("fault", "set", "500", "--count", "1").returncode == 0
    yield "fault list", run("fault", "list")
    token = run("token", "create", "ci", "--role", "reader")
    yield "token create", token
    yield "token list", run("token", "list")
    yield "token revoke", run("token", "revoke", token["id"])


def _webhooks(service: ServiceProcess, url: str) -> Iterator[Output]:
    yield "webhook create", service.json("webhook", "create", "pager", url)
    yield "webhook list", service.json("webhook", "list")
    yield "webhook test", service.json("webhook", "test", "pager")


def _without_service(folder: str) -> Iterator[Output]:
    env = {**os.environ, "XDG_CONFIG_HOME": folder}
    token = Path(folder) / "token"
    token.write_text("a.b.c", "utf-8")
    options = ("--server", "http://127.0.0.1:8170", "--token-file", str(token), "--no-check")
    added = run_command("context", "add", "lab", *options, env=env)
    assert added.returncode == 0, added.stderr
    failing = Path(folder) / "failing.toml"
    failing.write_text(_FAILING, "utf-8")
    for words in (
        ("context", "list"),
        ("scenario", "list"),
        ("scenario", "run", "spot-eviction", str(failing)),
    ):
        done = run_command(*words, "--json", env=env)
        yield " ".join(words[:2]), json.loads(done.stdout)
    checks = [AgentCheck(ok=True, what="state", detail="/var/lib/fairwarning")]
    yield "agent check", check_json(checks, None)
    result = TrapResult(TRAPS[0], survived=True, seen="approved", seconds=1.5)
    yield "certify", json.loads(report.as_json(["./handler"], "none", [result]))


# --- The stream -----------------------------------------------------------------------------------


_EVENTS = {"line", "clock"}


def stream() -> Outline:
    """Return the type of the data of each event."""
    events: dict[str, Any] = {}
    with ConsoleHarness() as console:
        listener = open_stream(console)
        console.created("machines", name="web")
        console.ok("POST", "/api/clock", {"advance_seconds": 1})
        while not events.keys() >= _EVENTS:
            message = console.run(asyncio.wait_for(listener.next(), LIMIT_SECONDS))
            if message.kind:
                events[message.kind] = message.data
        console.run(listener.disconnect())
    return outline_of(f"event {name}: {type_of(events[name])}" for name in sorted(events))
