"""The agent's configuration: TOML, validated before any hook runs. See docs/agent.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from fairwarning.core.configuration import (
    ConfigurationError,
    Read,
    at,
    flag,
    list_of,
    one_of,
    parse_toml,
    place_of,
    table,
    tables,
)
from fairwarning.core.errors import Refused, reason_of
from fairwarning.guest.agent import notices, system
from fairwarning.guest.agent.hooks_folder import PHASES, find_hooks
from fairwarning.guest.agent.notices import NoticePhase, NotifyKind, NotifySettings
from fairwarning.guest.agent.urls import ALLOWED, parse_url
from fairwarning.guest.endpoint import endpoint
from fairwarning.guest.events import Event, EventSource, EventType, Phase
from fairwarning.guest.text_enum import StrEnum

UNKNOWN_TYPE = "unknown"
"""The key of the policy for events of types that this version does not know."""
KUBERNETES_HOOKS = "fairwarning.guest.agent.kubernetes:"
_LONGEST_SECONDS = 24 * 3600
_LAST_ORDER = 10**6
_LAST_PORT = 65535

T = TypeVar("T")
V = TypeVar("V")


class ApprovalPolicy(StrEnum):
    """When to approve an event."""

    WHEN_DONE = "when done"
    AT_ONCE = "at once"
    NEVER = "never"
    USER_ONLY = "user events only"


_WITHOUT_HOOKS = (ApprovalPolicy.NEVER, ApprovalPolicy.WHEN_DONE)  # approve nothing


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
    boot: bool = False  # of phase over: also after each boot of the machine
    order: int = 0  # it follows the hooks of its phase with a smaller one
    timeout: timedelta = timedelta(seconds=300)
    authorization: str = field(default="", repr=False)  # of the URL: the value of the header

    def fits(self, event: Event) -> bool:
        """Whether the event has a type and source that this hook is for."""
        return self.fits_kind(event.type, event.source)

    def fits_kind(self, kind: str, source: str) -> bool:
        """Whether this hook is for events of this type and source."""
        return (not self.types or kind in self.types) and self.source in {"", source}


@dataclass(frozen=True)
class GroupSettings:
    """How machines that share an event exchange readiness (G5): one of the first two is set."""

    folder: str = ""  # a folder shared by all of them
    kubernetes: bool = False  # annotations on nodes
    approve_over_failures: bool = False  # shortly before NotBefore, although a member failed


@dataclass(frozen=True)
class AgentConfig:
    """The agent's configuration."""

    hooks: tuple[HookSettings, ...] = ()
    endpoint: str = ""
    name: str = ""  # of this machine; empty: read it from instance metadata
    state: Path = field(default_factory=system.state_folder)  # the folder of the journal
    approve: Mapping[str, ApprovalPolicy] = field(
        default_factory=dict
    )  # by event type; "" is the default of known types
    margin: timedelta = timedelta(seconds=5)
    listen: str = ""  # HOST:PORT of /healthz and /metrics
    group: GroupSettings | None = None
    notify: tuple[NotifySettings, ...] = ()
    hooks_folder: Path | None = None  # its hooks are among `hooks`

    def hook(self, name: str) -> HookSettings | None:
        """Return the hook with this name."""
        return next((hook for hook in self.hooks if hook.name == name), None)

    @property
    def has_secrets(self) -> bool:
        """Whether the configuration has a URL, which may be a secret."""
        return any([*(hook.url for hook in self.hooks), *(n.url for n in self.notify)])

    @property
    def uses_kubernetes(self) -> bool:
        """Whether the agent marks nodes: with its own hooks, or for a group."""
        ours = any(hook.call.startswith(KUBERNETES_HOOKS) for hook in self.hooks)
        return ours or (self.group is not None and self.group.kubernetes)

    def approves(self, event: Event) -> ApprovalPolicy:
        """Return what follows from the policy for this event: when done, at once, or never.

        Without hooks there is nothing to be done: `when done` approves nothing then.
        """
        rule = self.policy(event)
        if rule is ApprovalPolicy.USER_ONLY:
            of_user = event.source == EventSource.USER
            return ApprovalPolicy.WHEN_DONE if of_user else ApprovalPolicy.NEVER
        if rule is ApprovalPolicy.WHEN_DONE and not self.prepares:
            return ApprovalPolicy.NEVER
        return rule

    def policy(self, event: Event) -> ApprovalPolicy:
        """Return the policy that the configuration names for this event."""
        if not isinstance(event.type, EventType):
            return self.approve.get(UNKNOWN_TYPE, ApprovalPolicy.NEVER)
        return self.approve.get(event.type, self.approve.get("", ApprovalPolicy.WHEN_DONE))

    @property
    def approves_nothing(self) -> bool:
        """Whether no event is approved, whatever it is."""
        policies = {self.approve.get("", ApprovalPolicy.WHEN_DONE), *self.approve.values()}
        return policies <= set(_WITHOUT_HOOKS[:1] if self.prepares else _WITHOUT_HOOKS)

    @property
    def prepares(self) -> bool:
        """Whether there is a hook of phase scheduled."""
        return any(hook.phase == Phase.SCHEDULED for hook in self.hooks)


# --- Reading --------------------------------------------------------------------------------------


def read(path: Path) -> AgentConfig:
    """Read a file, or the files of a folder; raise `Refused` with the place of an error."""
    try:
        return _parse({str(file): file.read_text("utf-8") for file in files(path)}, str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise Refused("BadConfig", f"cannot read {path}: {reason_of(error)}") from error


def files(path: Path) -> list[Path]:
    """Return the files of a configuration: in a folder, those that end in `.toml`."""
    if not path.is_dir():
        return [path]
    if not (found := sorted(path.glob("*.toml"))):
        text = f"cannot read {path}: the folder has no file that ends in .toml"
        raise Refused("BadConfig", text)
    return found


def parse(text: str, source: str = "agent.toml") -> AgentConfig:
    """Parse a configuration."""
    return _parse({source: text}, source)


def _parse(texts: Mapping[str, str], source: str) -> AgentConfig:
    raw: dict[str, Any] = {}
    for name, text in texts.items():
        with _refusing(name):
            _merge(raw, parse_toml(text))
    with _refusing(source):
        return _config(raw)


@contextmanager
def _refusing(source: str) -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        raise Refused("BadConfig", f"{source}: {error.message}") from None


def _merge(raw: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add another file: tables such as `[[hook]]` follow those of earlier files."""
    for key, value in more.items():
        if isinstance(raw.get(key), list) and isinstance(value, list):
            raw[key] = [*raw[key], *value]
        elif key in raw:
            raise ConfigurationError(f"another file sets {key}")
        else:
            raw[key] = value


# Keys that have another name than the field that they set.
_FIELDS = {
    "margin_seconds": "margin",
    "timeout_seconds": "timeout",
    "on": "types",
}


def _fields(raw: object, keys: Mapping[str, Read], *required: str) -> dict[str, Any]:
    """Read a table into fields."""
    return {_FIELDS.get(key, key): value for key, value in table(raw, keys, *required).items()}


def _config(raw: object) -> AgentConfig:
    fields = _fields(raw, _CONFIG)
    hooks = [
        _hook(raw, place_of("hook", number, raw))
        for number, raw in enumerate(fields.pop("hook", ()), 1)
    ]
    if "hooks_folder" in fields:
        with at("hooks_folder"):
            hooks += _folder_hooks(fields["hooks_folder"])
    notifications = [
        _notification(raw, place_of("notify", number, raw))
        for number, raw in enumerate(fields.pop("notify", ()), 1)
    ]
    _check_unique("two hooks have the name", (hook.name for hook in hooks))
    _check_unique("two notifications have the name", (entry.name for entry in notifications))
    return AgentConfig(hooks=tuple(hooks), notify=tuple(notifications), **fields)


def _check_unique(error: str, names: Iterable[str]) -> None:
    known = set()
    for name in names:
        if name in known:
            raise ConfigurationError(f"{error} {name!r}")
        known.add(name)


def _hook(raw: object, place: str) -> HookSettings:
    with at(place):
        fields = _fields(raw, _HOOK, "name", "phase")
        kinds = [kind for kind in HookKind if kind.value in fields]
        if len(kinds) != 1:
            raise ConfigurationError(f"must have one of {', '.join(HookKind)}")
        if "url" in fields:
            fields["url"], fields["authorization"] = fields["url"]
        if fields.get("boot") and fields["phase"] != Phase.OVER:
            raise ConfigurationError("only a hook of phase over has boot")
        return HookSettings(kind=kinds[0], **fields)


def _notification(raw: object, place: str) -> NotifySettings:
    with at(place):
        fields = _fields(raw, _NOTIFY, "name", "kind")
        if sum(key in fields for key in ("url", "url_file", "url_env")) != 1:
            raise ConfigurationError("must have one of url, url_file, url_env")
        return NotifySettings(**fields)


def _group(value: object) -> GroupSettings:
    fields = table(value, _GROUP)
    kinds = [name for name in fields if name != "approve_over_failures"]
    if len(kinds) != 1 or not fields[kinds[0]]:
        raise ConfigurationError("must have one of folder, kubernetes")
    return GroupSettings(**fields)


# --- Values ---------------------------------------------------------------------------------------
# A value that may hold a secret is not shown in an error.


def _or_refuse(function: Callable[[T], V], value: T, allowed: str = "") -> V:
    """Call a function; turn its `ValueError` into an error in the file."""
    try:
        return function(value)
    except ValueError as error:
        raise ConfigurationError(f"{allowed}{error}") from None


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ConfigurationError("must be a non-empty string")
    return value


def _seconds(value: object) -> timedelta:
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else -1
    if not 0 <= number <= _LONGEST_SECONDS:
        raise ConfigurationError(f"must be a number of seconds from 0 to {_LONGEST_SECONDS}")
    return timedelta(seconds=number)


def _order(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _LAST_ORDER:
        raise ConfigurationError(f"must be a whole number from 0 to {_LAST_ORDER}")
    return value


def _positive_seconds(value: object) -> timedelta:
    seconds = _seconds(value)
    if not seconds:
        raise ConfigurationError("must be more than 0 seconds")
    return seconds


_words = list_of(_text, least=1)


def _set_of(words: Iterable[str]) -> Read:
    read_list = list_of(one_of(words), least=1)
    return lambda value: frozenset(read_list(value))


def _approve(value: object) -> dict[str, ApprovalPolicy]:
    """Read one policy for all known types, or one per type with `default` and `unknown`."""
    policy = one_of(ApprovalPolicy)
    if not isinstance(value, dict):
        return {"": policy(value)}
    policies = table(value, dict.fromkeys(("default", UNKNOWN_TYPE, *EventType), policy))
    return {"" if name == "default" else name: policy for name, policy in policies.items()}


def _url(value: object) -> tuple[str, str]:
    """Read a URL; return it without its credentials, and the value of their header."""
    return _or_refuse(parse_url, _text(value), f"must be a URL such as {ALLOWED}: ")


def _secret_url(value: object) -> str:
    _url(value)
    return str(value)


def _call(value: object) -> str:
    module, colon, function = _text(value).partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), function)):
        raise ConfigurationError("must be a Python function, as module:function")
    return f"{module}:{function}"


def _endpoint(value: object) -> str:
    url = _text(value)
    endpoint(url)
    return url


def _listen(value: object) -> str:
    address = _text(value)
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > _LAST_PORT:
        raise ConfigurationError("must be HOST:PORT, such as 127.0.0.1:8173")
    if not _is_host(host):
        raise ConfigurationError("must be HOST:PORT; a part of the host name is empty or too long")
    return address


def _is_host(host: str) -> bool:
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def _template(value: object) -> str:
    text = _text(value)
    _or_refuse(notices.check_template, text)
    return text


def _folder_hooks(folder: Path) -> list[HookSettings]:
    """Read the folder now, once: a later file is a hook after a start or a reload."""
    try:
        return [
            HookSettings(name, phase, HookKind.COMMAND, (str(path),), order=order)
            for name, phase, path, order in find_hooks(folder)
        ]
    except OSError as error:
        raise ConfigurationError(f"cannot read the folder: {reason_of(error)}") from None


# --- Keys -----------------------------------------------------------------------------------------

_GROUP: dict[str, Read] = {
    "folder": _text,
    "kubernetes": flag,
    "approve_over_failures": flag,
}
_HOOK: dict[str, Read] = {
    "name": _text,
    "phase": one_of(PHASES),
    "command": _words,
    "url": _url,
    "call": _call,
    "on": _set_of(EventType),
    "source": one_of(EventSource),
    "required": flag,
    "boot": flag,
    "order": _order,
    "timeout_seconds": _positive_seconds,
}
_NOTIFY: dict[str, Read] = {
    "name": _text,
    "kind": one_of(NotifyKind),
    "url": _secret_url,
    "url_file": _text,
    "url_env": _text,
    "phases": _set_of(NoticePhase),
    "on": _set_of(EventType),
    "text": _template,
}
_CONFIG: dict[str, Read] = {
    "endpoint": _endpoint,
    "name": _text,
    "state": lambda value: Path(_text(value)),
    "approve": _approve,
    "margin_seconds": _seconds,
    "listen": _listen,
    "group": _group,
    "hook": tables,
    "notify": tables,
    "hooks_folder": lambda value: Path(_text(value)).absolute(),
}
