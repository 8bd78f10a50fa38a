"""What a scenario has: the fleet that it begins with, and the names that its steps may use."""

import json
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from fairwarning.core.commands import CreateSet
from fairwarning.core.errors import Refused
from fairwarning.service.config import fleet_file
from fairwarning.service.config.values import FleetFileError, at
from fairwarning.testing.cloud import toml

_CLOUD = ("cloud", "metadata", "arm", "console")  # of the fleet: what holds from the beginning


class ScenarioNames:
    """The fleet, as fleet files' texts, and what there is in it; then what steps begin."""

    def __init__(self, fleet: Mapping[str, Any], silent: Iterable[str]) -> None:
        """Machines of the entries that are `silent` never ask for their events."""
        with at("fleet"):
            text = _text(fleet)
        try:
            commands = fleet_file.read(text, "fleet").commands
        except Refused as refused:
            raise FleetFileError(refused.message) from None
        sets = [one.set for one in commands if isinstance(one, CreateSet)]
        scopes = [one for one in commands if not isinstance(one, CreateSet)]
        self._known: dict[str, list[str]] = {
            "machine": [machine.name for one in scopes for machine in one.machines],
            "set": sets,
            "rollout": [],
            "operation": [],
        }
        rest = {key: value for key, value in fleet.items() if key not in _CLOUD}
        quiet = frozenset(silent)
        with at("silent"):
            for name in quiet:
                _check("entry of the fleet", name, _entries(rest))
        self.cloud = _text({key: fleet[key] for key in _CLOUD if key in fleet})
        self.asking = _text(_kept(rest, lambda name: name not in quiet))
        self.silent = _text(_kept(rest, lambda name: name in quiet))

    def begin(self, kind: str, name: str) -> None:
        """A step calls something so from now on."""
        if name in self._known[kind]:
            raise FleetFileError(f"an earlier step has a {kind} {name!r} already")
        self._known[kind].append(name)

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse names that nothing has."""
        for key, kind in {"of": "machine", **{kind: kind for kind in self._known}}.items():
            names = given.get(key, ())
            for name in [names] if isinstance(names, str) else names:
                # A set may grow, so its instances are known when the scenario is played.
                if kind != "machine" or name.rpartition("_")[0] not in self._known["set"]:
                    with at(key):
                        _check(kind, name, self._known[kind])


def _check(kind: str, name: str, known: Iterable[str]) -> None:
    if name in known:
        return
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known) or 'none'}"
    raise FleetFileError(f"there is no {kind} {name!r}; {hint}")


def _text(fleet: Mapping[str, Any]) -> str:
    return "\n".join(f"{json.dumps(key)} = {toml(value)}" for key, value in fleet.items())


def _entries(fleet: Mapping[str, Any]) -> list[str]:
    return [one["name"] for value in fleet.values() if isinstance(value, list) for one in value]


def _kept(fleet: Mapping[str, Any], keep: Callable[[str], bool]) -> dict[str, Any]:
    return {
        key: [one for one in value if keep(one["name"])] if isinstance(value, list) else value
        for key, value in fleet.items()
    }
