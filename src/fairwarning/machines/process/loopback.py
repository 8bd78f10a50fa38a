"""The endpoint of a program that runs without namespaces: on loopback, and its HTTP proxy.

Clients that use a proxy reach it by http://169.254.169.254, all others by its own URL.
"""

import socket
from collections.abc import Mapping
from ipaddress import ip_address, ip_network

from fairwarning.core.errors import FairwarningError
from fairwarning.machines.process.namespace import ENDPOINT

ENDPOINT_VARIABLE = "FAIRWARNING_ENDPOINT"  # of the SDK and the agent

_ADDRESSES = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
_ATTEMPTS = 3  # another process may take a port that was free
_ONE_COLON = 1  # HOST:PORT; an IPv6 address has more
# Hosts that stay direct, in the forms that clients know: names, domains, addresses and networks.
_DIRECT = (
    "localhost", ".localhost", ".local", ".internal", ".svc", ".cluster.local",
    "127.0.0.1", "::1", "127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7",
)  # fmt: skip


def bind_endpoint() -> socket.socket:
    """Return a socket on a free port of loopback, of IPv6 where there is no IPv4."""
    problem = ""
    for family, address in _ADDRESSES * _ATTEMPTS:
        try:
            return _bind(family, address, _free_port(family, address))
        except OSError as error:
            problem = error.strerror or str(error)
    raise FairwarningError("CannotListen", f"cannot listen on loopback: {problem}")


def _free_port(family: int, address: str) -> int:
    with _bind(family, address, 0) as probe:
        port: int = probe.getsockname()[1]
        return port


def _bind(family: int, address: str, port: int) -> socket.socket:
    """Bind to a port. A port that the kernel chose would change when the endpoint is reopened."""
    endpoint = socket.socket(family)
    try:
        # To be opened again while connections of before are still closing.
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        endpoint.bind((address, port))
    except OSError:
        endpoint.close()
        raise
    return endpoint


def endpoint_url(endpoint: socket.socket) -> str:
    """Return the URL of the endpoint."""
    host, port = endpoint.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def environment(outside: Mapping[str, str], url: str) -> dict[str, str]:
    """Return an environment in which http://169.254.169.254 is answered at this URL.

    Hosts that were direct stay so. Other plain HTTP goes to the endpoint, which refuses it.
    """
    kept = dict(outside)
    direct = ",".join([*_DIRECT, *_direct_before(outside)])
    for name, value in (("http_proxy", url), ("no_proxy", direct)):
        kept[name] = kept[name.upper()] = value
    return kept | {ENDPOINT_VARIABLE: url}


def _direct_before(outside: Mapping[str, str]) -> list[str]:
    """Return the hosts without a proxy so far, but for those that may mean the endpoint."""
    entries = ",".join(outside.get(name, "") for name in ("no_proxy", "NO_PROXY"))
    hosts = dict.fromkeys(entry.strip() for entry in entries.replace(" ", ",").split(","))
    return [host for host in hosts if host not in _DIRECT and not _may_mean_endpoint(host)]


def _may_mean_endpoint(entry: str) -> bool:
    """Whether a client may read this entry as 169.254.169.254; `*` and `254` are examples."""
    host = entry.rpartition(":")[0] if entry.count(":") == _ONE_COLON else entry
    if "/" in host:
        try:
            return ip_address(ENDPOINT[0]) in ip_network(host, strict=False)
        except ValueError:
            return True  # each client reads it in its own way
    return ENDPOINT[0].endswith(host.lstrip("*.")) or ENDPOINT[0].startswith(host.rstrip("*"))
