"""The scenario file: a fleet, and a timeline of actions and expectations (O6).

The whole file is checked before a run; errors give their place in the file.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from importlib.resources import files
from pathlib import Path
from typing import Any

from fairwarning.core.commands import CreateSet
from fairwarning.core.configuration import (
    ConfigurationError,
    Table,
    at,
    describe,
    nearest,
    one_of,
    parse_toml,
    table,
    tables,
)
from fairwarning.core.errors import NotFound, Refused, reason_of
from fairwarning.core.record import changed, record
from fairwarning.service.config import fleet_file
from fairwarning.testing.cloud import toml
from fairwarning.testing.scenarios import expectations, values
from fairwarning.testing.scenarios.actions import ACTIONS
from fairwarning.testing.scenarios.expectations import Expectation

_SUFFIX = ".toml"
_CLOUD = ("cloud", "metadata", "arm", "console")  # keys of the fleet that configure the service
_STEP = re.compile(r"^[ \t]*\[\[[ \t]*step[ \t]*\]\]", re.MULTILINE)


@record
class ScenarioStep:
    """One step of the timeline: an action, or expectations."""

    number: int
    line: int  # in the file; 0 if unknown
    at_seconds: int  # since the start
    note: str = ""
    do: str = ""
    arguments: Table = field(default_factory=dict)
    label: str = ""  # name of the operations it starts
    refused: str = ""  # the error code that is expected
    expect: tuple[Expectation, ...] = ()

    @property
    def place(self) -> str:
        """The place of the step in the file."""
        return _place(self.number, self.line)

    @property
    def title(self) -> str:
        """A one-line description."""
        if self.note:
            return self.note
        if self.do:
            return f"{self.do} {_join_names(_targets(self))}".strip()
        names = (name for expectation in self.expect for name in expectation.names)
        return f"expect of {_join_names(names)}"


def _place(number: int, line: int) -> str:
    return f"step {number} (line {line})" if line else f"step {number}"


def _targets(step: ScenarioStep) -> list[str]:
    targets = (step.arguments.get(key, ()) for key in ("machine", "set", "rollout"))
    return [name for names in targets for name in ([names] if isinstance(names, str) else names)]


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


@record
class Scenario:
    """The content of a scenario file."""

    name: str
    source: str  # name of the file
    text: str
    about: str = ""
    cloud: str = ""  # this and the next two are texts of fleet files
    fleet: str = ""
    silent: str = ""
    steps: tuple[ScenarioStep, ...] = ()

    @property
    def seconds(self) -> int:
        """The length of the scenario in virtual time."""
        return self.steps[-1].at_seconds


def shipped() -> list[Scenario]:
    """Return the scenarios that ship with Fairwarning, sorted by name."""
    paths = [path for path in files(__package__).iterdir() if path.name.endswith(_SUFFIX)]
    paths.sort(key=lambda path: path.name)
    return [read(path.read_text("utf-8"), path.name) for path in paths]


def find(name: str) -> Scenario:
    """Return the scenario that ships under this name, or the one in the file at this path."""
    known = {scenario.name: scenario for scenario in shipped()}
    if name in known:
        return known[name]
    path = Path(name)
    if not path.is_file():
        text = f"no scenario or file named {name[:200]!r}; known scenarios: {', '.join(known)}"
        raise NotFound("UnknownScenario", text)
    try:
        return read(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise Refused("BadScenario", f"cannot read {path}: {reason_of(error)}") from None


def read(text: str, source: str = "scenario") -> Scenario:
    """Parse the text of a scenario file.

    An invalid file is `Refused`; the message has `source`, the place and the allowed values.
    """
    try:
        content = table(parse_toml(text), _FILE, "fleet", "step")
        names = _Names(content["fleet"], content.get("silent", ()))
        return Scenario(
            name=content.get("name", Path(source).stem),
            source=source,
            text=text,
            about=content.get("about", ""),
            cloud=names.cloud,
            fleet=names.polling,
            silent=names.silent,
            steps=tuple(_steps(text, content["step"], names)),
        )
    except ConfigurationError as error:
        raise Refused("BadScenario", f"{source}: {error.message}") from None


def _fleet(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"must be a table like a fleet file, not {describe(value)}")
    return value


_FILE = {
    "name": values.name,
    "about": values.text,
    "silent": values.one_or_more,
    "fleet": _fleet,
    "step": tables,
}


# --- The fleet and its names ---------------------------------------------------------------------


class _Names:
    """The fleet as fleet file texts, its names, and the names that steps introduce."""

    def __init__(self, fleet: Mapping[str, Any], silent: Iterable[str]) -> None:
        """Read the fleet. The machines of the `silent` entries never poll."""
        with at("fleet"):
            text = _text(fleet)
        try:
            commands = fleet_file.read(text, "fleet").commands
        except Refused as refused:
            raise ConfigurationError(refused.message) from None
        sets = [command.set for command in commands if isinstance(command, CreateSet)]
        scopes = [command for command in commands if not isinstance(command, CreateSet)]
        self._known: dict[str, list[str]] = {
            "machine": [machine.name for scope in scopes for machine in scope.machines],
            "set": sets,
            "rollout": [],
            "operation": [],
        }
        rest = {key: value for key, value in fleet.items() if key not in _CLOUD}
        silent_names = frozenset(silent)
        with at("silent"):
            for name in silent_names:
                _check("entry of the fleet", name, _entries(rest))
        self.cloud = _text({key: fleet[key] for key in _CLOUD if key in fleet})
        self.polling = _text(_filtered(rest, lambda name: name not in silent_names))
        self.silent = _text(_filtered(rest, lambda name: name in silent_names))

    def add(self, kind: str, name: str) -> None:
        """Add the name that a step gives to an operation or a rollout."""
        if name in self._known[kind]:
            raise ConfigurationError(f"an earlier step already has a {kind} named {name!r}")
        self._known[kind].append(name)

    def check(self, keys: Mapping[str, Any]) -> None:
        """Refuse unknown names."""
        for key, kind in {"of": "machine", **{kind: kind for kind in self._known}}.items():
            names = keys.get(key, ())
            for name in [names] if isinstance(names, str) else names:
                # A set may grow during the run, so its instances are checked then.
                if kind != "machine" or name.rpartition("_")[0] not in self._known["set"]:
                    with at(key):
                        _check(kind, name, self._known[kind])


def _check(kind: str, name: str, known: Iterable[str]) -> None:
    if name in known:
        return
    meant = nearest(name, known)
    hint = f"did you mean {meant!r}?" if meant else f"known names: {', '.join(known) or 'none'}"
    raise ConfigurationError(f"there is no {kind} {name!r}; {hint}")


def _text(fleet: Mapping[str, Any]) -> str:
    return "\n".join(f"{json.dumps(key)} = {toml(value)}" for key, value in fleet.items())


def _entries(fleet: Mapping[str, Any]) -> list[str]:
    return [entry["name"] for value in fleet.values() if isinstance(value, list) for entry in value]


def _filtered(fleet: Mapping[str, Any], keep: Callable[[str], bool]) -> dict[str, Any]:
    return {
        key: [entry for entry in value if keep(entry["name"])] if isinstance(value, list) else value
        for key, value in fleet.items()
    }


# --- Steps --------------------------------------------------------------------------------------

_COMMON = {"at": values.moment, "note": values.text}
_DO = {"do": one_of(ACTIONS), "refused": values.name}
_AS = {"as": values.name}


def _steps(text: str, raw: list[object], names: _Names) -> Iterator[ScenarioStep]:
    if not raw:
        raise ConfigurationError("step is missing")
    lines = [text.count("\n", 0, match.start()) + 1 for match in _STEP.finditer(text)]
    if len(lines) != len(raw):  # the file uses another TOML syntax for the array
        lines = [0] * len(raw)
    now = 0
    for number, (line, item) in enumerate(zip(lines, raw, strict=True), 1):
        with at(_place(number, line)):
            keys = _keys(item)
            now = _check_time(keys.pop("at", now), now)
            yield _step(ScenarioStep(number=number, line=line, at_seconds=now), keys, names)


def _check_time(seconds: int, previous: int) -> int:
    if seconds < previous:
        with at("at"):
            raise ConfigurationError(
                f"must not be before {values.spelled(previous)!r}, the time of the previous step"
            )
    return seconds


def _keys(raw: object) -> Table:
    """Read the keys of a step; its action decides which keys are allowed."""
    if not isinstance(raw, dict) or ("do" in raw) == ("expect" in raw):
        raise ConfigurationError("must be a table with either do or expect")
    if "expect" in raw:
        return table(raw, {**_COMMON, "expect": expectations.read})
    with at("do"):
        action = ACTIONS[_DO["do"](raw["do"])]
    label = _AS if action.begins else {}
    keys = table(raw, {**_COMMON, **_DO, **label, **action.keys}, *action.needs)
    if action.either and len(keys.keys() & set(action.either)) != 1:
        raise ConfigurationError(f"must have exactly one of {', '.join(action.either)}")
    if "instances" in keys and "set" not in keys:
        raise ConfigurationError("set is missing; instances needs it")
    return keys


def _step(step: ScenarioStep, keys: Table, names: _Names) -> ScenarioStep:
    note, expect, do = keys.pop("note", ""), keys.pop("expect", ()), keys.pop("do", "")
    label, refused = keys.pop("as", ""), keys.pop("refused", "")
    for expectation in expect:
        with at(expectation.place):
            names.check({expectation.subject: expectation.names})
    if do == "rollout":
        names.add("rollout", keys["rollout"])
    if label:
        names.add("operation", label)
    names.check(keys)
    return changed(
        step, note=note, expect=expect, do=do, arguments=keys, label=label, refused=refused
    )
