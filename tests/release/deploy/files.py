"""The content of the files in deploy/, as the programs that use them read it."""

import json
import re
import shlex
import string
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.fixtures.programs import ROOT, run_program

DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "fairwarning.service"
CLUSTER = DEPLOY / "systemd" / "cluster.conf"
CONTAINERFILE = DEPLOY / "container" / "Containerfile"
ENTRYPOINT = DEPLOY / "container" / "entrypoint"
COMPOSE = DEPLOY / "container" / "compose.yaml"
KUBERNETES = DEPLOY / "kubernetes"
PROGRAM = "/opt/fairwarning/bin/fairwarning"


@dataclass(frozen=True)
class Command:
    """A fairwarning command line, and where it is used."""

    where: str
    words: tuple[str, ...]  # without the program

    def option(self, name: str) -> str:
        """Return the value of `--name value` or `--name=value`; empty if it is missing."""
        for word, following in zip(self.words, (*self.words[1:], ""), strict=True):
            if word == name:
                return following
            if word.startswith(f"{name}="):
                return word.removeprefix(f"{name}=")
        return ""

    def port(self, name: str) -> int:
        """Return the port of an option that holds an address."""
        return int(self.option(name).rpartition(":")[2])


def lint(tool: str, *words: str | Path) -> None:
    """Run a linter of this environment on files; it must report nothing."""
    path = Path(sys.executable).parent / tool
    done = run_program(path, *words, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


# --- The content of each kind of file -------------------------------------------------------------


def settings(unit: Path) -> dict[str, list[str]]:
    """Return the settings of a unit by key, with continued lines joined."""
    values: dict[str, list[str]] = {}
    for key, value in re.findall(
        r"^(\w+)=(.*)$", unit.read_text().replace("\\\n", " "), re.MULTILINE
    ):
        values.setdefault(key, []).append(value)
    return values


def started(unit: Path) -> Command:
    """Return the command of a unit, with the environment of the service's own unit applied."""
    environment = dict(item.split("=", 1) for item in settings(UNIT)["Environment"][0].split())
    line = string.Template(settings(unit)["ExecStart"][-1]).substitute(environment)
    program, *words = shlex.split(line)
    assert program == PROGRAM
    return Command(unit.name, tuple(words))


def instructions(name: str) -> list[str]:
    """Return the arguments of each instruction of this name in the Containerfile."""
    text = CONTAINERFILE.read_text().replace("\\\n", " ")
    return [" ".join(value.split()) for value in re.findall(rf"^{name} (.*)$", text, re.MULTILINE)]


def documents(path: Path) -> list[Any]:
    """Return the documents of a YAML file."""
    return list(YAML(typ="safe").load_all(path))


def of_kind(kind: str) -> Any:  # noqa: ANN401  (the content of the manifest)
    """Return the only manifest of this kind."""
    files = [path for path in sorted(KUBERNETES.glob("*.yaml")) if "example" not in path.name]
    (manifest,) = [
        manifest for path in files for manifest in documents(path) if manifest["kind"] == kind
    ]
    return manifest


def container() -> Any:  # noqa: ANN401  (see above)
    """Return the only container of the Deployment."""
    (only,) = of_kind("Deployment")["spec"]["template"]["spec"]["containers"]
    return only


def services() -> dict[str, Any]:
    """Return the services of the compose file that run our image, by name."""
    (compose,) = documents(COMPOSE)
    return {
        name: service
        for name, service in compose["services"].items()
        if service["image"].startswith("fairwarning:")
    }


# --- The command lines ----------------------------------------------------------------------------


def image() -> Command:
    """Return the default command of the image."""
    return Command("CMD of the Containerfile", tuple(json.loads(instructions("CMD")[0])))


def healthcheck() -> Command:
    """Return the health check command of the image."""
    program, *words = json.loads(instructions("HEALTHCHECK")[0].partition(" CMD ")[2])
    assert program == "fairwarning"
    return Command("HEALTHCHECK of the Containerfile", tuple(words))


def composed() -> list[Command]:
    """Return the commands of compose.yaml."""
    return [
        Command(f"compose, {name}", tuple(service["command"]))
        for name, service in services().items()
    ]


def deployed() -> Command:
    """Return the command of the pods."""
    return Command("the Deployment", tuple(container()["args"]))


def command_lines() -> Iterator[Command]:
    """Yield all command lines."""
    yield from (started(UNIT), started(CLUSTER), image(), healthcheck(), *composed(), deployed())
