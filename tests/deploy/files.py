"""What stands in the files of deploy/, read as those read them who they are for."""

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
    """A command line of ours, and where it stands."""

    where: str
    words: tuple[str, ...]  # without the program

    def option(self, name: str) -> str:
        """What an option is given, as `--name value` or `--name=value`; empty without it."""
        for word, following in zip(self.words, (*self.words[1:], ""), strict=True):
            if word == name:
                return following
            if word.startswith(f"{name}="):
                return word.removeprefix(f"{name}=")
        return ""

    def port(self, name: str) -> int:
        """That of an option which holds an address."""
        return int(self.option(name).rpartition(":")[2])


def lint(tool: str, *words: str | Path) -> None:
    """Have a linter of this environment look at a file; it must have nothing to say against it."""
    path = Path(sys.executable).parent / tool
    done = run_program(path, *words, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


# --- What each kind of file holds -----------------------------------------------------------------


def settings(unit: Path) -> dict[str, list[str]]:
    """What a unit says, by key; a line that goes on below is one."""
    found: dict[str, list[str]] = {}
    for key, value in re.findall(
        r"^(\w+)=(.*)$", unit.read_text().replace("\\\n", " "), re.MULTILINE
    ):
        found.setdefault(key, []).append(value)
    return found


def started(unit: Path) -> Command:
    """What a unit runs, with what the service's own unit has in its environment."""
    environment = dict(one.split("=", 1) for one in settings(UNIT)["Environment"][0].split())
    line = string.Template(settings(unit)["ExecStart"][-1]).substitute(environment)
    program, *words = shlex.split(line)
    assert program == PROGRAM
    return Command(unit.name, tuple(words))


def instructions(name: str) -> list[str]:
    """What stands behind an instruction of the Containerfile, each time it is used."""
    text = CONTAINERFILE.read_text().replace("\\\n", " ")
    return [" ".join(one.split()) for one in re.findall(rf"^{name} (.*)$", text, re.MULTILINE)]


def documents(path: Path) -> list[Any]:
    """Those of a YAML file."""
    return list(YAML(typ="safe").load_all(path))


def of_kind(kind: str) -> Any:  # noqa: ANN401  (whatever the manifest holds)
    """The one manifest of this kind."""
    files = [path for path in sorted(KUBERNETES.glob("*.yaml")) if "example" not in path.name]
    (found,) = [one for path in files for one in documents(path) if one["kind"] == kind]
    return found


def container() -> Any:  # noqa: ANN401  (see above)
    """The one of the Deployment."""
    (found,) = of_kind("Deployment")["spec"]["template"]["spec"]["containers"]
    return found


def services() -> dict[str, Any]:
    """Those of the compose file that run our image, by name."""
    (compose,) = documents(COMPOSE)
    found = compose["services"].items()
    return {name: one for name, one in found if one["image"].startswith("fairwarning:")}


# --- The command lines ----------------------------------------------------------------------------


def image() -> Command:
    """What the image runs unless told otherwise."""
    return Command("CMD of the Containerfile", tuple(json.loads(instructions("CMD")[0])))


def healthcheck() -> Command:
    """How the image asks whether all is well."""
    program, *words = json.loads(instructions("HEALTHCHECK")[0].partition(" CMD ")[2])
    assert program == "fairwarning"
    return Command("HEALTHCHECK of the Containerfile", tuple(words))


def composed() -> list[Command]:
    """What compose.yaml runs."""
    return [Command(f"compose, {name}", tuple(one["command"])) for name, one in services().items()]


def deployed() -> Command:
    """What the pods run."""
    return Command("the Deployment", tuple(container()["args"]))


def command_lines() -> Iterator[Command]:
    """All of them."""
    yield from (started(UNIT), started(CLUSTER), image(), healthcheck(), *composed(), deployed())
