"""Settings of Podman for the tests alone, in separate files."""

import os
import resource
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
