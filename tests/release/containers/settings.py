"""Settings of Podman for the tests alone, and those of this system's pip for the pip in a build."""

import ast
import os
import resource
import subprocess
import sys
from pathlib import Path

from tests.release.containers.needs import COMPOSE

_KEPT = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}

_CONTAINERS, _STORAGE = (
    Path(__file__).with_name(f"{name}.conf").read_text("utf-8")
    for name in ("containers", "storage")
)
_REGISTRIES = "unqualified-search-registries = []\n"
# The page says `docker compose`; podman-compose takes the same arguments.
_DOCKER = '#!/bin/sh\nshift\nexec "{compose}" "$@"\n'


def write(folder: Path, *, storage: Path, images: Path | None = None) -> dict[str, str]:
    """Return Podman's environment, with containers in `storage` and more images in `images`."""
    for name in ("bin", "networks", "temporary"):
        (folder / name).mkdir()
    texts = {
        "containers.conf": _CONTAINERS.format(
            networks=folder / "networks",
            files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
            processes=resource.getrlimit(resource.RLIMIT_NPROC)[1],
        ),
        "storage.conf": _STORAGE.format(storage=storage, images=f'"{images}"' if images else ""),
        "registries.conf": _REGISTRIES,
        "bin/docker": _DOCKER.format(compose=COMPOSE),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "bin" / "docker").chmod(0o755)
    return {
        **{name: value for name, value in os.environ.items() if name.upper() in _KEPT},
        "PATH": f"{folder / 'bin'}:{os.environ.get('PATH', os.defpath)}:/usr/sbin",
        "HOME": str(folder),
        "TMPDIR": str(folder / "temporary"),
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        "CONTAINERS_REGISTRIES_CONF": str(folder / "registries.conf"),
        "BUILDAH_ISOLATION": "chroot",  # the kind with the fewest requirements
        "DISABLE_HC_SYSTEMD": "true",  # systemd would run health checks outside the sandbox
    }


PIP_TARGET = "/etc/pip.conf"  # where pip inside the build looks
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")  # pip reads these too
_INDEX = "simple"  # the usual name of an index's folder; its files are beside it


def volumes(folder: Path) -> list[str]:
    """Return options for `podman build`: a file with all settings, and the paths they name."""
    values = pip_settings()
    path = folder / "pip.conf"
    path.write_text("[global]\n" + "".join(f"{key} = {value}\n" for key, value in values.items()))
    mounts = [f"{path}:{PIP_TARGET}:ro", *(f"{used}:{used}:ro" for used in named_paths(values))]
    return [word for mount in mounts for word in ("--volume", mount)]


def pip_settings() -> dict[str, str]:
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
