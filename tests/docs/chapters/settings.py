"""Settings and limits, from the parsers of the fleet file and of the agent's configuration."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from fairwarning.core import limits, windows
from fairwarning.core.commands import CreateSet
from fairwarning.core.errors import Refused
from fairwarning.core.model import Machine, Rules
from fairwarning.guest.agent import config
from fairwarning.guest.agent.notices import TEMPLATE_FIELDS, NotifySettings
from fairwarning.service.config import values
from fairwarning.service.config.settings import (
    ArmSettings,
    CloudSettings,
    ClusterSettings,
    ConsoleSettings,
    DriverSettings,
    JournalSettings,
    MetadataSettings,
    OperationSettings,
)
from tests.docs.chapters.page import page, seconds, table
from tests.docs.pages import ROOT

# No key accepts the first two, and few the third; the error then lists the allowed values.
_WRONG = (-1, object(), "A")
_WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_OTHER = {
    **_WORDS["allowed"],
    "text": "a template with the fields " + ", ".join(f"`{{{name}}}`" for name in TEMPLATE_FIELDS),
    "maintenance_window": f"empty, or a window: {windows.FORM}",
}
_LEFT_OUT = {
    **_WORDS["default"],
    "update_domains": str(limits.UPDATE_DOMAINS),
    "fault_domains": str(limits.FAULT_DOMAINS),
}
_NEEDED = {"capacity", "machines", "roles"}

Read = Callable[[object], object]
SettingsTable = tuple[str, list[list[str]]]
"""A heading, and for each key a row: the key, its allowed values and its default."""


def write() -> str:
    """Return the page."""
    return page(
        "Settings and limits",
        "Every key of the two configuration files, with its allowed values and its default, as the "
        "parsers report them. For the meaning of each key see [the fleet file](../fleet-file.md) "
        "and [the agent](../agent.md).",
        "## Fleet file",
        *_sections(fleet_tables()),
        "## Agent configuration",
        *_sections(agent_tables()),
        "## Limits",
        "These are constants in `src/fairwarning/core/limits.py`, which gives the reasons. Some "
        "are bounds and defaults of the settings above.",
        table(["limit", "value", ""], _limits()),
    )


def _sections(tables: Iterator[SettingsTable]) -> Iterator[str]:
    for heading, rows in tables:
        yield f"### {heading}"
        yield table(["key", "allowed values", "default"], rows)


def fleet_tables() -> Iterator[SettingsTable]:
    """Yield the tables of the fleet file."""
    own: Mapping[str, object] = _defaults(Machine)
    ours: list[tuple[str, Mapping[str, Read], Mapping[str, object]]] = [
        ("[cloud]", values.CLOUD, _defaults(CloudSettings)),
        ("[metadata]", values.ENDPOINT, _defaults(MetadataSettings)),
        ("[arm]", values.CONTROL_PLANE, _defaults(ArmSettings)),
        ("[console]", values.CONSOLE, _defaults(ConsoleSettings)),
        ("[driver]", values.DRIVER, _defaults(DriverSettings)),
        ("[cluster]", values.CLUSTER, _defaults(ClusterSettings)),
        ("[journal]", values.JOURNAL, _defaults(JournalSettings)),
        ("[operations]", values.OPERATIONS, _defaults(OperationSettings)),
        ("[rules]", values._RULES, _defaults(Rules)),
        ("[[machine]]", {**values.ENTRY, **values.MACHINE, **values.COUNT}, own),
        ("[[availability_set]]", _entry(values.DOMAINS, machines=values.members), own),
        ("[[cloud_service]]", _entry(values.DOMAINS, roles=values.roles), own),
        (
            "[[scale_set]]",
            _entry({**values.SCALE_SET, **values.KIND, **values.DOMAINS}),
            _defaults(CreateSet),
        ),
    ]
    for heading, keys, defaults in ours:
        entry = heading.startswith("[[")
        left_out = _LEFT_OUT | (_WORDS["default_of_entry"] if entry else {})
        needed = _NEEDED | ({"name"} if entry else set())
        rows = [
            [f"`{key}`", allowed_values(key, read), _left_out(key, needed, left_out, defaults)]
            for key, read in keys.items()
        ]
        yield f"`{heading}`", rows


def _entry(more: Mapping[str, Read], **own: Read) -> dict[str, Read]:
    return {**values.ENTRY, **own, **more}


def agent_tables() -> Iterator[SettingsTable]:
    """Yield the tables of the agent's configuration."""
    parts: list[tuple[str, Mapping[str, Read], type, set[str]]] = [
        ("The file", config._CONFIG, config.AgentConfig, set()),
        ("`[[hook]]`", config._HOOK, config.HookSettings, {"name", "phase"}),
        ("`[group]`", config._GROUP, config.GroupSettings, set()),
        ("`[[notify]]`", config._NOTIFY, NotifySettings, {"name", "kind"}),
    ]
    for heading, keys, kind, needed in parts:
        rows = []
        for key, read in keys.items():
            shown = {"hook": "[[hook]]", "group": "[group]", "notify": "[[notify]]"}.get(key, key)
            default = {key: _defaults(kind).get(config._FIELDS.get(key, key))}
            rows.append(
                [
                    f"`{shown}`",
                    allowed_values(shown, read),
                    _left_out(key, needed, _WORDS["default_of_agent"], default),
                ]
            )
        yield heading, rows


def _defaults(kind: type) -> dict[str, object]:
    return {field.name: field.default for field in fields(kind)}


def allowed_values(key: str, read: Read, known: Mapping[str, str] = _OTHER) -> str:
    """Return the allowed values that the parser's error names, with quoted values as code."""
    if key in known:
        return _as_code(known[key])
    texts = [text for wrong in _WRONG if (text := _refusal(read, wrong))]
    longest = max(texts, key=len, default="")
    return _as_code(longest).replace("one of False, True", "true or false")


def _as_code(text: str) -> str:
    return re.sub(r"'([^'\n]*)'", r"`\1`", text)


def _refusal(read: Read, wrong: object) -> str:
    try:
        read(wrong)
    except (Refused, ValueError) as error:
        text = re.sub(r"^.*?must be ", "", str(getattr(error, "what", error)))
        return re.sub(r", not (a fraction or a date|-1|'A'|<object .*>)$", "", text)
    return ""


def _left_out(
    key: str, needed: set[str], known: Mapping[str, str], defaults: Mapping[str, object]
) -> str:
    if key in needed:
        return "*required*"
    return known.get(key) or _value(defaults.get(key))


def _value(default: object) -> str:
    if default is None or default is MISSING or default in ("", (), frozenset()):
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, timedelta):
        return f"{default.total_seconds():g}"
    return f"`{default}`" if isinstance(default, str | StrEnum) else str(default)


def _limits() -> Iterator[list[str]]:
    source = (ROOT / "src/fairwarning/core/limits.py").read_text("utf-8")
    for name, note in re.findall(r"^([A-Z_]+) = .*?(?:  # (.*))?$", source, re.MULTILINE):
        value = getattr(limits, name)
        shown = f"{value:,}"
        if name.endswith("_SECONDS") and seconds(value) != f"{value:g} seconds":
            shown += f" ({seconds(value)})"
        yield [name.lower().replace("_", " "), shown, note]
