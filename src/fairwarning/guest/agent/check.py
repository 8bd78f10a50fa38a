"""Prove that an agent with this configuration can do its work (G8): `fairwarning agent check`.

Nothing is run and nothing is approved. Python functions are imported, hosts are connected to, and
a file is written to the state folder and removed again.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fairwarning.core.errors import FairwarningError
from fairwarning.guest.agent import system
from fairwarning.guest.agent.check_target import (
    CONNECT_SECONDS,
    CheckFailed,
    check_hook,
    check_not_writable,
    check_url,
)
from fairwarning.guest.agent.config import AgentConfig, ApprovalPolicy, HookSettings, files
from fairwarning.guest.agent.drill import EventPreview
from fairwarning.guest.agent.notices import NotifySettings
from fairwarning.guest.agent.work import to_printable
from fairwarning.guest.client import ScheduledEvents
from fairwarning.guest.discover import discover
from fairwarning.guest.events import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    date_text,
    normalize_name,
)

ENDPOINT_SECONDS = 10.0
_KUBERNETES = "fairwarning.guest.agent.kubernetes"
_ANSWER_BYTES = 256  # of a health server


@dataclass(frozen=True)
class AgentCheck:
    """The result of one check."""

    ok: bool
    what: str
    detail: str
    next_step: str = ""  # if it failed, or as a warning


def check_agent(config: AgentConfig, file: Path | None = None) -> Iterator[AgentCheck]:
    """Yield the result of each check as soon as it is known; `file` is the configuration."""
    for path in files(file) if file is not None else ():
        yield _check_file(config, path)
    yield from _check_endpoint(config)
    yield _run("state", str(config.state), partial(_check_folder, config.state))
    if config.listen:
        yield _run("listen", config.listen, partial(_check_listen, config.listen))
    if not config.hooks:
        yield AgentCheck(ok=True, what="hooks", detail=f"none; {_describe_approval(config)}")
    for folder in (config.hooks_folder,) if config.hooks_folder else ():
        yield _run("hooks", str(folder), partial(_check_hooks_folder, folder))
    for hook in config.hooks:
        yield _run("hook", describe_hook(hook), partial(check_hook, hook))
    for target in config.notify:
        detail = f"{target.name}: {target.kind}"
        yield _run("notify", detail, partial(_check_target, target))
    if config.group is not None and config.group.folder:
        shared = config.group.folder
        yield _run("group", shared, partial(_check_folder, Path(shared)))
    if config.uses_kubernetes:
        yield from _check_permissions(config)


def _run(what: str, detail: str, check: Callable[[], str | None]) -> AgentCheck:
    """Run one check; it may return more detail."""
    try:
        more = check()
    except CheckFailed as failed:
        problem = to_printable(str(failed))
        return AgentCheck(False, what, f"{detail}: {problem}", failed.next_step)  # noqa: FBT003  (the result itself)
    return AgentCheck(ok=True, what=what, detail=f"{detail}, {more}" if more else detail)


# --- Endpoint -------------------------------------------------------------------------------------


def _check_endpoint(config: AgentConfig) -> Iterator[AgentCheck]:
    """Check that the endpoint answers, and knows this machine."""
    try:
        endpoint = discover(config.endpoint or None)
    except FairwarningError as error:
        step = "run this inside the machine, or set `endpoint` in the configuration"
        yield AgentCheck(ok=False, what="endpoint", detail=error.message, next_step=step)
        return
    with ScheduledEvents(endpoint, patience=ENDPOINT_SECONDS) as client:
        try:
            document = client.document()
        except FairwarningError as error:
            detail = f"{endpoint}: {error.message}"
            step = "see that the service runs and that this machine can reach it"
            yield AgentCheck(ok=False, what="endpoint", detail=detail, next_step=step)
            return
        yield AgentCheck(ok=True, what="endpoint", detail=endpoint)
        yield _check_name(config, client)
        yield AgentCheck(ok=True, what="document", detail=f"incarnation {document.incarnation}")
        for event in document.events:
            yield AgentCheck(ok=True, what="event", detail=describe_event(event))


def _check_name(config: AgentConfig, client: ScheduledEvents) -> AgentCheck:
    """Check that the endpoint has a name for this machine, or does not contradict `name`."""
    try:
        known = client.me()
    except FairwarningError as error:
        if config.name:  # it may be set because the endpoint cannot tell
            return AgentCheck(ok=True, what="machine", detail=config.name)
        step = "set `name` in the configuration"
        return AgentCheck(ok=False, what="machine", detail=error.message, next_step=step)
    if config.name and normalize_name(config.name) != normalize_name(known):
        detail = f"{config.name}, but the endpoint calls this machine {known}"
        step = f"remove `name` from the configuration, or set it to {known}"
        return AgentCheck(ok=False, what="machine", detail=detail, next_step=step)
    return AgentCheck(ok=True, what="machine", detail=config.name or known)


def describe_event(event: Event) -> str:
    """Return an event's type, machines, time and id."""
    when = f"not before {event.not_before:%H:%M:%S} UTC" if event.not_before else event.status
    return f"{event.type} of {', '.join(event.resources)}, {when} ({event.id})"


# --- Files and ports ----------------------------------------------------------------------------


def _check_file(config: AgentConfig, file: Path) -> AgentCheck:
    """Check who may change the configuration; warn if every user may read a secret in it."""
    result = _run("config", str(file), partial(check_not_writable, file))
    if result.ok and config.has_secrets and system.is_readable_by_all(file):
        detail = f"{file}: every user can read its URLs, which may be secrets"
        step = f"chmod 600 {file}, if its owner is the agent's user"
        return AgentCheck(ok=True, what="config", detail=detail, next_step=step)
    return result


def _check_hooks_folder(folder: Path) -> None:
    for path in (folder, *(path for path in sorted(folder.glob("*")) if path.is_dir())):
        check_not_writable(path)


def _check_folder(folder: Path) -> None:
    """Write a file durably, and remove it with the folders that were created for it."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix="check-", dir=folder)
        try:
            os.write(descriptor, b"fairwarning agent check\n")
            os.fsync(descriptor)
            system.sync_folder(folder)
        finally:
            os.close(descriptor)
            Path(name).unlink()
    except OSError as error:
        step = "run this as the agent's user, or set another folder on a disk"
        raise CheckFailed(f"cannot be written: {error.strerror or error}", step) from None
    finally:
        for path in missing:
            with suppress(OSError):
                path.rmdir()


def _check_listen(listen: str) -> str | None:
    host, _, port = listen.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as server:
            if os.name == "posix":  # elsewhere it would share a port that is in use
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((host.strip("[]"), int(port)))
    except OSError as error:
        if _is_agent(host.strip("[]"), int(port)):
            return "an agent is listening"
        problem = f"cannot be used: {error.strerror or error}"
        raise CheckFailed(problem, "choose another port or address for `listen`") from None
    return None


def _is_agent(host: str, port: int) -> bool:
    """Whether an agent's health server answers there."""
    import http.client  # noqa: PLC0415  (as in `notify`)

    any_address = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  (to connect to, not to bind)
    connection = http.client.HTTPConnection(
        any_address.get(host, host), port, timeout=CONNECT_SECONDS
    )
    try:
        connection.request("GET", "/healthz")
        return b'"status"' in connection.getresponse().read(_ANSWER_BYTES)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


# --- Hooks and notifications ----------------------------------------------------------------------


def describe_hook(hook: HookSettings) -> str:
    """Return a hook's name, phase, event types and target; the path of a URL may be a secret."""
    types = ", ".join(sorted(hook.types)) or "any event"
    parts = urlsplit(hook.url)
    target = " ".join(hook.command) or hook.call or f"{parts.scheme}://{parts.netloc}"
    return f"{hook.name}: when {hook.phase}, for {types}: {target}"


def _describe_approval(config: AgentConfig) -> str:
    """Return what an agent without hooks approves, which may not be what its owner wants."""
    events = (
        Event("", kind, EventStatus.SCHEDULED, (), source=source)
        for kind in EventType
        for source in EventSource
    )
    approved = {config.approves(event) is not ApprovalPolicy.NEVER for event in events}
    if approved == {False}:
        return "no event is approved"
    return f"{'events' if approved == {True} else 'some events'} are approved immediately"


def _check_target(target: NotifySettings) -> str:
    """Connect to a target, and return its address: the rest of a URL is secret."""
    try:
        url, _ = target.read_url()
    except ValueError as error:
        step = "write the URL there, and let the agent's user read it"
        raise CheckFailed(str(error), step) from None
    return check_url(url)


# --- Kubernetes -----------------------------------------------------------------------------------


def _check_permissions(config: AgentConfig) -> Iterator[AgentCheck]:
    """Ask the API server for each right that the agent needs."""
    try:
        rights = import_module(_KUBERNETES).permissions(config)
    except Exception as error:  # noqa: BLE001  (of the client library)
        detail = f"cannot ask for the rights: {type(error).__name__}: {to_printable(str(error))}"
        step = "pip install 'fairwarning[kubernetes]', and see that the API server can be reached"
        yield AgentCheck(ok=False, what="kubernetes", detail=detail, next_step=step)
        return
    for what, allowed, why in rights:
        detail = f"{what}: {why}" if why and not allowed else what
        step = "" if allowed else "grant it in the agent's ClusterRole"
        yield AgentCheck(ok=bool(allowed), what="kubernetes", detail=detail, next_step=step)


# --- Output ---------------------------------------------------------------------------------------


def check_text(result: AgentCheck) -> str:
    """Return the line of a check, and the next step if there is one."""
    word = "FAILED" if not result.ok else "warning" if result.next_step else "ok"
    line = f"{word:8}{result.what:10} {result.detail}"
    return f"{line}\n{'':8}next step: {result.next_step}" if result.next_step else line


def check_json(results: Sequence[AgentCheck], preview: EventPreview | None) -> dict[str, Any]:
    """Return all checks, and what would happen for an event, as a JSON object."""
    body: dict[str, Any] = {"ok": all(result.ok for result in results)}
    body["checks"] = [
        {
            "ok": result.ok,
            "check": result.what,
            "detail": result.detail,
            "next_step": result.next_step,
        }
        for result in results
    ]
    if preview is not None:
        body["event"] = {
            "type": str(preview.event.type),
            "not_before": date_text(preview.event.not_before),
            "decision": preview.decision,
            "hooks": [
                {
                    "name": run.hook.name,
                    "phase": str(run.phase),
                    "required": run.hook.required,
                    "deadline": date_text(run.deadline),
                }
                for run in preview.hooks
            ],
        }
    return body


def preview_text(preview: EventPreview) -> str:
    """Return what would happen for an event."""
    event = preview.event
    when = date_text(event.not_before)
    lines = [f"\nFor a {event.type} with source {event.source}, not before {when}:"]
    for run in preview.hooks:
        required = ", required" if run.hook.required and run.phase == "scheduled" else ""
        lines.append(
            f"  {run.phase:9}  hook {run.hook.name}, until {date_text(run.deadline)}{required}"
        )
    if not preview.hooks:
        lines.append("  no hook would run")
    return "\n".join([*lines, f"  decision   {preview.decision}"])
