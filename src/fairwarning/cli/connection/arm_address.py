"""Where the Azure Resource Manager API of a service is, and the CA that its clients must trust."""

import hashlib
from ipaddress import ip_address
from pathlib import Path
from typing import TypedDict
from urllib.parse import urlsplit

from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import LocalService, ServiceTarget
from fairwarning.core.errors import Unavailable
from fairwarning.server import contexts
from fairwarning.server.ready import read_ready
from fairwarning.service import keyfiles

_DIGITS = 16


class ArmAddress(TypedDict):
    """What a client of the API needs; `ca` is the path of a file on this host."""

    arm: str
    subscription: str
    ca: str


def arm_address(service: ServiceTarget) -> ArmAddress:
    """Return the address of the API; store the CA of a service on another host."""
    address = service.address()
    if isinstance(service, LocalService):
        return read_ready(service.folder)
    about = client.ask(service, "GET", "/api/service")
    path = _own_folder() / "ca" / f"{_digest(about['ca'])}.pem"
    if not path.exists():
        keyfiles.write(path, about["ca"].encode())
    arm = _reachable(about["arm"], address.url)
    return {"arm": arm, "subscription": about["subscription"], "ca": str(path)}


def azure_cli_folder(service: ServiceTarget, name: str) -> Path:
    """Return the folder for the Azure CLI's configuration for this service."""
    if isinstance(service, LocalService):
        return service.folder.resolve() / name
    return _own_folder() / name / _digest(service.address().url)


def _own_folder() -> Path:
    return contexts.file_path().parent


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _reachable(arm: str, console: str) -> str:
    """Return the URL as it can be reached from here, by the host of the console."""
    bound, host = urlsplit(arm), urlsplit(console).hostname or ""
    if _is(bound.hostname, "is_unspecified"):
        shown = f"[{host}]" if ":" in host else host
        return f"https://{shown}:{bound.port}"
    if _is(bound.hostname, "is_loopback") and not _is(host, "is_loopback"):
        text = (
            f"the service at {console} listens for Azure's tools on {bound.hostname} only; start it"
            f" with `--arm 0.0.0.0:{bound.port}` and the name {host} in [arm] hosts"
        )
        raise Unavailable("ArmOnLoopback", text)
    return arm


def _is(host: str | None, kind: str) -> bool:
    if host == "localhost":
        return kind == "is_loopback"
    try:
        return bool(getattr(ip_address(host or ""), kind))
    except ValueError:
        return False
