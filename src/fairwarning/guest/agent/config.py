"""The agent's configuration: TOML, validated before any hook runs. See docs/agent.md."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from fairwarning.core.errors import Refused
from fairwarning.guest.agent import notices, system
from fairwarning.guest.agent.hooks_folder import find_hooks
from fairwarning.guest.agent.notices import NoticePhase, NotifyKind, NotifySettings
from fairwarning.guest.agent.urls import ALLOWED, parse_url
from fairwarning.guest.endpoint import endpoint
from fairwarning.guest.events import Event, EventSource, EventType
from fairwarning.guest.text_enum import StrEnum
from fairwarning.guest.watch import Phase

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # the same module, for older versions

KUBERNETES_HOOKS = "fairwarning.guest.agent.kubernetes:"
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


@dataclass(frozen=True)
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
    authorization: str = field(default="", repr=False)  # of the URL: the value of the header

    def fits(self, event: Event) -> bool:
        """Whether the event has a type and source that this hook is for."""
        return (not self.types or event.type in self.types) and self.source in {"", event.source}


@dataclass(frozen=True)
class GroupSettings:
    """How machines that share an event exchange readiness (G5): one of the first three is set."""

    folder: str = ""  # a folder shared by all of them
    peers: Mapping[str, str] = field(default_factory=dict)  # resource name -> URL of its agent
    kubernetes: bool = False  # annotations on nodes
    approve_over_failures: bool = False  # shortly before NotBefore, although a member failed
    authorizations: Mapping[str, str] = field(default_factory=dict, repr=False)  # of the peers


@dataclass(frozen=True)
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
    notify: tuple[NotifySettings, ...] = ()

    def hook(self, name: str) -> HookSettings | None:
        """Return the hook with this name."""
        return next((hook for hook in self.hooks if hook.name == name), None)

    @property
    def uses_kubernetes(self) -> bool:
        """Whether the agent marks nodes: with its own hooks, or for a group."""
        ours = any(hook.call.startswith(KUBERNETES_HOOKS) for hook in self.hooks)
        return ours or (self.group is not None and self.group.kubernetes)

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
    hooks += fields.pop("hooks_folder", ())
    names = [hook.name for hook in hooks]
    for name in names:
        if names.count(name) > 1:
            raise _ConfigError(f"hook {name!r}: two hooks have this name")
    fields["notify"] = _notifications(fields.pop("notify", ()))
    return AgentConfig(hooks=hooks, **fields)


def _notifications(tables: Sequence[object]) -> tuple[NotifySettings, ...]:
    settings = tuple(
        _notification(table, f"notify {number}") for number, table in enumerate(tables, 1)
    )
    names = [notification.name for notification in settings]
    for name in names:
        if names.count(name) > 1:
            raise _ConfigError(f"notify {name!r}: two notifications have this name")
    return settings


def _notification(raw: object, place: str) -> NotifySettings:
    fields = _table(raw, place, _NOTIFY)
    for required in ("name", "kind"):
        if required not in fields:
            raise _ConfigError(f"{place}: {required} is missing")
    try:
        notices.check_settings(fields)
    except ValueError as error:
        raise _ConfigError(f"notify {fields['name']!r}: {error}") from None
    return NotifySettings(**fields)


def _hook(raw: object, place: str) -> HookSettings:
    fields = _table(raw, place, _HOOK)
    for required in ("name", "phase"):
        if required not in fields:
            raise _ConfigError(f"{place}: {required} is missing")
    place = f"hook {fields['name']!r}"
    kinds = [kind for kind in HookKind if kind.value in fields]
    if len(kinds) != 1:
        raise _ConfigError(f"{place}: must have one of {', '.join(HookKind)}")
    if "url" in fields:
        fields["url"], fields["authorization"] = fields["url"]
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
    if isinstance(value, bool) or not isinstance(value, (int, float)):
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


def _peers(value: object, place: str) -> dict[str, tuple[str, str]]:
    if not isinstance(value, dict) or not value:
        raise _ConfigError(f"{place}: must be a table of resource names and URLs")
    peers = {name: _url(url, f"{place}, {name}") for name, url in value.items()}
    for name, (url, _) in peers.items():
        if "?" in url:
            raise _ConfigError(f"{place}, {name}: must be a URL without a query, such as {ALLOWED}")
    return peers


def _url(value: object, place: str) -> tuple[str, str]:
    """Read a URL; return it without its credentials, and the value of their header."""
    try:
        return parse_url(_text(value, place))
    except _ConfigError:
        raise
    except ValueError as error:
        raise _ConfigError(f"{place}: must be a URL such as {ALLOWED}: {error}") from None


def _call(value: object, place: str) -> str:
    module, colon, function = _text(value, place).partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), function)):
        raise _ConfigError(f"{place}: must be a Python function, as module:function")
    return f"{module}:{function}"


def _group(value: object, place: str) -> GroupSettings:
    fields = _table(value, place, _GROUP)
    kinds = [name for name in fields if name != "approve_over_failures"]
    if len(kinds) != 1 or not fields[kinds[0]]:
        raise _ConfigError(f"{place}: must have one of folder, peers, kubernetes")
    if "peers" in fields:
        fields["authorizations"] = {
            name: value for name, (_, value) in fields["peers"].items() if value
        }
        fields["peers"] = {name: url for name, (url, _) in fields["peers"].items()}
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
        raise _ConfigError(f"{place}: must be HOST:PORT, such as 127.0.0.1:8173")
    return address


def _hooks(value: object, place: str) -> list[object]:
    if not isinstance(value, list):
        raise _ConfigError(f"{place}: use double brackets for the heading of a hook, [[hook]]")
    return value


def _notify_tables(value: object, place: str) -> list[object]:
    if not isinstance(value, list):
        raise _ConfigError(f"{place}: use double brackets for the heading, [[notify]]")
    return value


def _notify_kind(value: object, place: str) -> NotifyKind:
    return NotifyKind(_one_of(*NotifyKind)(value, place))


def _notify_phases(value: object, place: str) -> frozenset[str]:
    check = _one_of(*NoticePhase)
    return frozenset(check(name, place) for name in _words(value, place))


def _secret_url(value: object, place: str) -> str:
    _url(value, place)
    return str(value)


def _template(value: object, place: str) -> str:
    text = _text(value, place)
    try:
        notices.check_template(text)
    except ValueError as error:
        raise _ConfigError(f"{place}: {error}") from None
    return text


def _mail_address(value: object, place: str) -> str:
    address = _text(value, place)
    if "@" not in address or not address.isprintable():
        raise _ConfigError(f"{place}: must be an e-mail address, such as ops@example.org")
    return address


def _mail_addresses(value: object, place: str) -> tuple[str, ...]:
    return tuple(_mail_address(word, place) for word in _words(value, place))


def _hooks_folder(value: object, place: str) -> tuple[HookSettings, ...]:
    """Read the folder now, once: a later file is a hook after the next start."""
    try:
        return tuple(
            HookSettings(f"{phase}/{path.name}", phase, HookKind.COMMAND, (str(path),))
            for phase, path in find_hooks(Path(_text(value, place)).absolute())
        )
    except OSError as error:
        raise _ConfigError(f"{place}: cannot read the folder: {error}") from None


# Keys of the file, the fields that they set, and the functions that read them.
_GROUP: dict[str, tuple[str, Read]] = {
    "folder": ("folder", _text),
    "peers": ("peers", _peers),
    "kubernetes": ("kubernetes", _flag),
    "approve_over_failures": ("approve_over_failures", _flag),
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
_NOTIFY: dict[str, tuple[str, Read]] = {
    "name": ("name", _text),
    "kind": ("kind", _notify_kind),
    "url": ("url", _secret_url),
    "url_file": ("url_file", _text),
    "url_env": ("url_env", _text),
    "phases": ("phases", _notify_phases),
    "on": ("types", _types),
    "text": ("text", _template),
    "smtp": ("smtp", _listen),
    "from": ("sender", _mail_address),
    "to": ("recipients", _mail_addresses),
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
    "notify": ("notify", _notify_tables),
    "hooks_folder": ("hooks_folder", _hooks_folder),
}
