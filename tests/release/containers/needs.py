"""The requirements of the container tests, and what to install if they are missing."""

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[3]
CACHE = ROOT / ".local" / "containers"
COMPOSE = CACHE / "compose" / "bin" / "podman-compose"  # `make test-containers` installs it
REQUESTED = "FAIRWARNING_CONTAINERS"  # these tests take minutes, so they only run on request
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/lib/podman", "/usr/sbin"))
_PACKAGES = {  # Debian's, by program
    "podman": "podman",
    "crun": "crun",
    "netavark": "netavark",
    "aardvark-dns": "aardvark-dns",
    "catatonit": "catatonit",
    "iptables": "iptables",  # for netavark, up to 1.9
    "nft": "nftables",  # for netavark, from 1.10 on
    "ip": "iproute2",
    "unshare": "util-linux",
    "openssl": "openssl",
    "mmdebstrap": "mmdebstrap",
}


def missing() -> str:
    """Return why no container can be started here; empty if nothing is missing."""
    if not os.environ.get(REQUESTED):
        return "building and running images takes minutes; `make test-containers` does it"
    installed = {package: shutil.which(name, path=_PATH) for name, package in _PACKAGES.items()}
    installed["debian-archive-keyring"] = str(KEYRING) if KEYRING.exists() else None
    lacking = " ".join(package for package, path in installed.items() if path is None)
    if lacking:
        return f"apt-get install {lacking}"
    if os.geteuid() != 0:
        return "namespaces and mounts need root; run `sudo make test-containers`"
    if not COMPOSE.exists():
        return "podman-compose is not installed; `make test-containers` installs it"
    return ""
