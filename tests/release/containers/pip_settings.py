"""The package sources of this system's pip, for the pip inside a build."""

import ast
import os
import subprocess
import sys
from pathlib import Path

TARGET = "/etc/pip.conf"  # where pip inside the build looks
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")  # pip reads these too
_INDEX = "simple"  # the usual name of an index's folder; its files are beside it


def volumes(folder: Path) -> list[str]:
    """Return options for `podman build`: a file with all settings, and the paths they name."""
    values = settings()
    path = folder / "pip.conf"
    path.write_text("[global]\n" + "".join(f"{key} = {value}\n" for key, value in values.items()))
    mounts = [f"{path}:{TARGET}:ro", *(f"{used}:{used}:ro" for used in named_paths(values))]
    return [word for mount in mounts for word in ("--volume", mount)]


def settings() -> dict[str, str]:
    """Return the settings for all pip commands; the environment overrides the files."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    sections: dict[str, dict[str, str]] = {"global": {}, ":env:": {}}
    for line in done.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        sections.setdefault(section, {})[key] = " ".join(ast.literal_eval(value).split())
    bundles = [os.environ[name] for name in _BUNDLES if name in os.environ]
    return {**({"cert": bundles[0]} if bundles else {}), **sections["global"], **sections[":env:"]}


def named_paths(values: dict[str, str]) -> list[str]:
    """Return the files and folders of this system that the settings name, each once."""
    words = [word.removeprefix("file://") for value in values.values() for word in value.split()]
    paths = [Path(word) for word in words if word.startswith("/")]
    whole = [path.parent if path.name == _INDEX else path for path in paths]
    return sorted({str(path) for path in whole if path.exists()})
