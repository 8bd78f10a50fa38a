"""The initial fleet of a scenario, and the names that its steps can use."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairwarning.core.commands import CreateSet
from fairwarning.core.configuration import ConfigurationError, at, nearest
from fairwarning.core.errors import Refused
from fairwarning.service.config import fleet_file
from fairwarning.testing.cloud import toml

_CLOUD = ("cloud", "metadata", "arm", "console")  # keys of the fleet that configure the service


class ScenarioNames:
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
