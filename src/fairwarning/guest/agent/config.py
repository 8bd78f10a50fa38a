"""The agent's configuration: TOML, validated before any hook runs. See docs/agent.md."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fairwarning.core.errors import Refused
from fairwarning.guest.agent import system
from fairwarning.guest.endpoint import endpoint
from fairwarning.guest.events import Event, EventSource, EventType
from fairwarning.guest.watch import Phase

_LONGEST_SECONDS = 24 * 3600
_LAST_PORT = 65535


class ApprovalPolicy(StrEnum):
    """When to approve an event."""

    WHEN_DONE = "when done"
    AT_ONCE = "at once"
    NEVER = "never"
    USER_ONLY = "user events only"


class HookKind(StrEnum):
    """The kind of a hook."""

    COMMAND = "command"
    URL = "url"
    CALL = "call"


@dataclass(frozen=True, slots=True)
class HookSettings:
    """A hook to run for events."""

    name: str
    phase: Phase
    kind: HookKind
    command: tuple[str, ...] = ()
    url: str = ""
    call: str = ""  # module:function
    types: frozenset[str] = frozenset()  # empty: all
    source: str = ""  # empty: any
    required: bool = True
    anyone: bool = False  # also for events that do not name this machine
    timeout: timedelta = timedelta(seconds=300)

    def fits(self, event: Event) -> bool:
        """Whether the event has a type and source that this hook is for."""
        return (not self.types or event.type in self.types) and self.source in {"", event.source}


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """How machines that share an event exchange readiness (G5): exactly one of these is set."""

    folder: str = ""  # a folder shared by all of them
    peers: Mapping[str, str] = field(default_factory=dict)  # resource name -> URL of its agent
    kubernetes: bool = False  # annotations on nodes


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The agent's configuration."""

    hooks: tuple[HookSettings, ...] = ()
    endpoint: str = ""
    name: str = ""  # of this machine; empty: read it from instance metadata
    state: Path = field(default_factory=system.state_folder)  # the folder of the journal
    approve: Mapping[str, ApprovalPolicy] = field(
        default_factory=dict
    )  # by event type; "" is the default
    margin: timedelta = timedelta(seconds=5)
    listen: str = ""  # HOST:PORT of /healthz and /metrics
    group: GroupSettings | None = None

    def hook(self, name: str) -> HookSettings | None:
        """Return the hook with this name."""
        return next((hook for hook in self.hooks if hook.name == name), None)

    def approves(self, event: Event) -> ApprovalPolicy:
        """Return the policy for this event."""
        rule = self.approve.get(event.type, self.approve.get("", ApprovalPolicy.WHEN_DONE))
        if rule is ApprovalPolicy.USER_ONLY:
            return (
                ApprovalPolicy.WHEN_DONE
                if event.source == EventSource.USER
                else ApprovalPolicy.NEVER
            )
        return rule


# --- Reading --------------------------------------------------------------------------------------


def read(path: Path) -> AgentConfig:
    """Read a configuration file; raise `Refused` with the place of an error."""
    try:
        return parse(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise Refused("BadConfig", f"cannot read {path}: {error}") from error


def parse(text: str, source: str = "agent.toml") -> AgentConfig:
    """Parse a configuration."""
    try:
        raw = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Refused("BadConfig", f"{source}: not valid TOML: {error}") from error
    try:
        return _config(raw)
    except _ConfigError as error:
        raise Refused("BadConfig", f"{source}: {error}") from None


class _ConfigError(ValueError):
    """An error in the file; the text names the place and the allowed values."""


Read = Callable[[Any, str], Any]


def _config(raw: Mapping[str, Any]) -> AgentConfig:
    fields = _table(raw, "", _CONFIG)
    hooks = tuple(
        _hook(table, f"hook {number}") for number, table in enumerate(fields.pop("hook", ()), 1)
    )
    names = [hook.name for hook in hooks]
    for name in names:
        if names.count(name) > 1:
            raise _ConfigError(f"hook {name!r}: two hooks have this name")
    return AgentConfig(hooks=hooks, **fields)


def _hook(raw: object, place: str) -> HookSettings:
    fields = _table(raw, place, _HOOK)
    for required in ("name", "phase"):
        if required not in fields:
            raise _ConfigError(f"{place}: {required} is missing")
    place = f"hook {fields['name']!r}"
    kinds = [kind for kind in HookKind if kind.value in fields]
    if len(kinds) != 1:
        raise _ConfigError(f"{place}: must have one of {', '.join(HookKind)}")
    return HookSettings(kind=kinds[0], **fields)


def _table(raw: object, place: str, keys: Mapping[str, tuple[str, Read]]) -> dict[str, Any]:
    """Read a table into fields; refuse unknown keys."""
    prefix = f"{place}: " if place else ""
    if not isinstance(raw, dict):
        raise _ConfigError(f"{prefix}must be a table")
    for key in raw:
        if key not in keys:
            raise _ConfigError(f"{prefix}unknown key {key[:40]!r}; use one of {', '.join(keys)}")
    return {
        keys[key][0]: keys[key][1](value, f"{place}, {key}" if place else key)
        for key, value in raw.items()
    }


def _text(value: object, place: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise _ConfigError(f"{place}: must be a non-empty string")
    return value


def _flag(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        raise _ConfigError(f"{place}: must be true or false")
    return value


def _seconds(value: object, place: str) -> timedelta:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _ConfigError(f"{place}: must be a number of seconds")
    if not 0 <= value <= _LONGEST_SECONDS:
        raise _ConfigError(f"{place}: must be a number of seconds from 0 to {_LONGEST_SECONDS}")
    return timedelta(seconds=value)


def _positive_seconds(value: object, place: str) -> timedelta:
    seconds = _seconds(value, place)
    if not seconds:
        raise _ConfigError(f"{place}: must be more than 0 seconds")
    return seconds


def _words(value: object, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise _ConfigError(f"{place}: must be a list of strings, such as ['./drain.sh', '--now']")
    return tuple(_text(word, place) for word in value)


def _one_of(*allowed: str) -> Read:
    def check(value: object, place: str) -> str:
        if value not in allowed:
            raise _ConfigError(f"{place}: must be one of {', '.join(allowed)}")
        return str(value)

    return check


def _types(value: object, place: str) -> frozenset[str]:
    check = _one_of(*EventType)
    return frozenset(check(name, place) for name in _words(value, place))


def _phase(value: object, place: str) -> Phase:
    return Phase(_one_of(Phase.SCHEDULED, Phase.STARTED, Phase.OVER)(value, place))


def _approve(value: object, place: str) -> dict[str, ApprovalPolicy]:
    """Read one policy for all events, or one per event type with `default` for the others."""
    check_policy = _one_of(*ApprovalPolicy)
    if not isinstance(value, dict):
        return {"": ApprovalPolicy(check_policy(value, place))}
    check_type = _one_of("default", *EventType)
    return {
        ("" if check_type(name, place) == "default" else name): ApprovalPolicy(
            check_policy(policy, f"{place}, {name}")
        )
        for name, policy in value.items()
    }


def _peers(value: object, place: str) -> dict[str, str]:
    if not isinstance(value, dict) or not value:
        raise _ConfigError(f"{place}: must be a table of resource names and URLs")
    return {name: _url(url, f"{place}, {name}") for name, url in value.items()}


def _url(value: object, place: str) -> str:
    url = _text(value, place)
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise _ConfigError(f"{place}: must be a URL such as http://HOST:PORT/PATH")
    return url


def _call(value: object, place: str) -> str:
    module, colon, function = _text(value, place).partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), function)):
        raise _ConfigError(f"{place}: must be a Python function, as module:function")
    return f"{module}:{function}"


def _group(value: object, place: str) -> GroupSettings:
    fields = _table(value, place, _GROUP)
    if len(fields) != 1 or not all(fields.values()):
        raise _ConfigError(f"{place}: must have one of {', '.join(_GROUP)}")
    return GroupSettings(**fields)


def _endpoint(value: object, place: str) -> str:
    url = _text(value, place)
    try:
        endpoint(url)
    except Refused as refused:
        raise _ConfigError(f"{place}: {refused.message}") from None
    return url


def _listen(value: object, place: str) -> str:
    address = _text(value, place)
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > _LAST_PORT:
        raise _ConfigError(f"{place}: must be HOST:PORT, such as 127.0.0.1:8172")
    return address


def _hooks(value: object, place: str) -> list[object]:
    if not isinstance(value, list):
        raise _ConfigError(f"{place}: use double brackets for the heading of a hook, [[hook]]")
    return value


# Keys of the file, the fields that they set, and the functions that read them.
_GROUP: dict[str, tuple[str, Read]] = {
    "folder": ("folder", _text),
    "peers": ("peers", _peers),
    "kubernetes": ("kubernetes", _flag),
}
_HOOK: dict[str, tuple[str, Read]] = {
    "name": ("name", _text),
    "phase": ("phase", _phase),
    "command": ("command", _words),
    "url": ("url", _url),
    "call": ("call", _call),
    "on": ("types", _types),
    "source": ("source", _one_of(*EventSource)),
    "required": ("required", _flag),
    "anyone": ("anyone", _flag),
    "timeout_seconds": ("timeout", _positive_seconds),
}
_CONFIG: dict[str, tuple[str, Read]] = {
    "endpoint": ("endpoint", _endpoint),
    "name": ("name", _text),
    "state": ("state", lambda value, place: Path(_text(value, place))),
    "approve": ("approve", _approve),
    "margin_seconds": ("margin", _seconds),
    "listen": ("listen", _listen),
    "group": ("group", _group),
    "hook": ("hook", _hooks),
}
