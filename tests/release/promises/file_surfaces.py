"""The keys of the files that users write, as outlines: fleet, agent and scenario files."""

import re
from collections.abc import Iterable, Mapping

from fairwarning.core.configuration import Read
from fairwarning.testing.scenarios import scenario
from fairwarning.testing.scenarios.actions import ACTIONS
from fairwarning.testing.scenarios.expectations import SUBJECTS
from tests.docs.chapters import settings
from tests.docs.chapters.settings import SettingsTable
from tests.release.promises.outline import REQUIRED, Outline, outline_of

_LINK = re.compile(r"\[(`[^`]*`)\]\([^)]*\)")
_ONE_OF = "one of "


def fleet_file() -> Outline:
    """Return the tables and keys of a fleet file."""
    return _tables(settings.fleet_tables())


def agent_file() -> Outline:
    """Return the tables and keys of the agent's configuration."""
    return _tables(settings.agent_tables())


def _tables(tables: Iterable[SettingsTable]) -> Outline:
    return {heading.replace("`", ""): dict(_key(*row) for row in rows) for heading, rows in tables}


def _key(key: str, allowed: str, default: str) -> tuple[str, Outline]:
    name, allowed, default = (_plain(text) for text in (key, allowed, default))
    choices: list[str] = []
    if allowed.startswith(_ONE_OF) and ";" not in allowed:
        choices = [f"choice {word}" for word in allowed.removeprefix(_ONE_OF).split(", ")]
        allowed = "choice"
    value = f" {REQUIRED}" if default == "*required*" else f" = {default}"
    return f"{name}: {allowed}{value}", outline_of(choices)


def _plain(text: str) -> str:
    """Return a cell of a page without its links and backticks."""
    return _LINK.sub(r"\1", text).replace("`", "")


# --- Scenario files -------------------------------------------------------------------------------


def scenario_file() -> Outline:
    """Return the keys of a scenario file, of its actions and of its expectations."""
    outline = {"the file": _keys(scenario._FILE, ("fleet", "step"))}
    outline["every step"] = _keys({**scenario._COMMON, **scenario._DO, **scenario._AS})
    for name, action in sorted(ACTIONS.items()):
        parts = _keys(action.keys, action.needs)
        if action.either:
            parts |= {f"exactly one of {', '.join(action.either)}": {}}
        outline[f"do {name}"] = parts
    return outline | {f"expect {subject}": _keys(keys) for subject, keys in SUBJECTS.items()}


def _keys(keys: Mapping[str, Read], required: Iterable[str] = ()) -> Outline:
    """Return keys with what their parsers say that is allowed."""
    rows = [
        (key, settings.allowed_values(key, read, {}), "*required*" if key in required else "none")
        for key, read in sorted(keys.items())
    ]
    return dict(_key(*row) for row in rows)
