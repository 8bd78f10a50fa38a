"""The scenario file: a fleet, and a timeline of what happens and of what is expected (O6).

Everything in it is checked before anything is played; what is wrong is told with its place.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from importlib.resources import files
from pathlib import Path
from typing import Any

from fairwarning.core.errors import NotFound, Refused
from fairwarning.core.record import changed, record
from fairwarning.service.config.values import FleetFileError, at, parse_toml, table, tables
from fairwarning.service.config.values import Table as Given
from fairwarning.testing.scenarios import expectations, values
from fairwarning.testing.scenarios.actions import ACTIONS
from fairwarning.testing.scenarios.expectations import Expectation
from fairwarning.testing.scenarios.names import ScenarioNames

_SUFFIX = ".toml"
_STEP = re.compile(r"^[ \t]*\[\[[ \t]*step[ \t]*\]\]", re.MULTILINE)


@record
class ScenarioStep:
    """One line of the timeline: something is done, or something is expected."""

    number: int
    line: int  # where it stands in the file; 0 where that is not known
    at_seconds: int  # from the beginning
    note: str = ""
    do: str = ""
    given: Given = field(default_factory=dict)
    label: str = ""  # of the operations it begins
    refused: str = ""  # the code of the refusal that is expected
    expect: tuple[Expectation, ...] = ()

    @property
    def place(self) -> str:
        """Where it stands in the file."""
        return _place(self.number, self.line)

    @property
    def title(self) -> str:
        """What it is about, in a line."""
        if self.note:
            return self.note
        if self.do:
            return f"{self.do} {_names(_whom(self))}".strip()
        return f"expect of {_names(name for one in self.expect for name in one.names)}"


def _place(number: int, line: int) -> str:
    return f"step {number} (line {line})" if line else f"step {number}"


def _whom(step: ScenarioStep) -> list[str]:
    whom = (step.given.get(key, ()) for key in ("machine", "set", "rollout"))
    return [name for one in whom for name in ([one] if isinstance(one, str) else one)]


def _names(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


@record
class Scenario:
    """What a file says."""

    name: str
    source: str  # what its file is called
    text: str
    about: str = ""
    cloud: str = ""  # this and the next two are fleet files' texts
    fleet: str = ""
    silent: str = ""
    steps: tuple[ScenarioStep, ...] = ()

    @property
    def seconds(self) -> int:
        """How long it is, in its own time."""
        return self.steps[-1].at_seconds

    @property
    def length(self) -> str:
        """The same, as scenarios write it."""
        return values.spelled(self.seconds)


def shipped() -> list[Scenario]:
    """Those that ship with Fairwarning, by name."""
    found = [one for one in files(__package__).iterdir() if one.name.endswith(_SUFFIX)]
    return [
        read(one.read_text("utf-8"), one.name) for one in sorted(found, key=lambda one: one.name)
    ]


def find(name: str) -> Scenario:
    """The one that ships under this name, or that is in the file of this path."""
    known = {one.name: one for one in shipped()}
    if name in known:
        return known[name]
    path = Path(name)
    if not path.is_file():
        text = f"there is no scenario and no file {name[:200]!r}; known: {', '.join(known)}"
        raise NotFound("UnknownScenario", text)
    try:
        return read(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise Refused("BadScenario", f"{path} cannot be read: {error}") from None


def read(text: str, source: str = "scenario") -> Scenario:
    """The scenario that `text` describes.

    Anything else is `Refused`, and told by `source`, by the place in it and by what is allowed.
    """
    try:
        given = table(parse_toml(text), _FILE, "fleet", "step")
        names = ScenarioNames(given["fleet"], given.get("silent", ()))
        return Scenario(
            name=given.get("name", Path(source).stem),
            source=source,
            text=text,
            about=given.get("about", ""),
            cloud=names.cloud,
            fleet=names.asking,
            silent=names.silent,
            steps=tuple(_steps(text, given["step"], names)),
        )
    except FleetFileError as wrong:
        raise Refused("BadScenario", f"{source}: {wrong.message}") from None


def _fleet(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FleetFileError(f"must be a table, as a fleet file is one, not {values.shown(value)}")
    return value


_FILE = {
    "name": values.name,
    "about": values.text,
    "silent": values.one_or_more,
    "fleet": _fleet,
    "step": tables,
}


# --- Steps --------------------------------------------------------------------------------------

_COMMON = {"at": values.moment, "note": values.text}
_DO = {"do": values.one_of(ACTIONS), "refused": values.name}
_AS = {"as": values.name}


def _steps(text: str, raw: list[object], names: ScenarioNames) -> Iterator[ScenarioStep]:
    if not raw:
        raise FleetFileError("step is missing")
    lines = [text.count("\n", 0, found.start()) + 1 for found in _STEP.finditer(text)]
    if len(lines) != len(raw):  # written some other way that TOML allows
        lines = [0] * len(raw)
    now = 0
    for number, (line, one) in enumerate(zip(lines, raw, strict=True), 1):
        with at(_place(number, line)):
            given = _given(one)
            now = _moment(given.pop("at", now), now)
            yield _step(ScenarioStep(number=number, line=line, at_seconds=now), given, names)


def _moment(wanted: int, now: int) -> int:
    if wanted < now:
        with at("at"):
            raise FleetFileError(
                f"must not be before {values.spelled(now)!r}, when the step before it is"
            )
    return wanted


def _given(raw: object) -> Given:
    """The keys of a step: which may be there, its word decides."""
    if not isinstance(raw, dict) or ("do" in raw) == ("expect" in raw):
        raise FleetFileError("must be a table with either do or expect")
    if "expect" in raw:
        return table(raw, {**_COMMON, "expect": expectations.read})
    with at("do"):
        action = ACTIONS[_DO["do"](raw["do"])]
    named = _AS if action.begins else {}
    given = table(raw, {**_COMMON, **_DO, **named, **action.keys}, *action.needs)
    if action.either and len(given.keys() & set(action.either)) != 1:
        raise FleetFileError(f"must have exactly one of {', '.join(action.either)}")
    if "instances" in given and "set" not in given:
        raise FleetFileError("instances are those of a set: set is missing")
    return given


def _step(step: ScenarioStep, given: Given, names: ScenarioNames) -> ScenarioStep:
    note, expect, do = given.pop("note", ""), given.pop("expect", ()), given.pop("do", "")
    label, refused = given.pop("as", ""), given.pop("refused", "")
    for one in expect:
        with at(one.place):
            names.check({one.subject: one.names})
    if do == "rollout":
        names.begin("rollout", given["rollout"])
    if label:
        names.begin("operation", label)
    names.check(given)
    return changed(step, note=note, expect=expect, do=do, given=given, label=label, refused=refused)
