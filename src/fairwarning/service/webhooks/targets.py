"""Allowed webhook targets: hosts that the operator allows, and never a metadata service.

A name is resolved once; the address is checked and then used for the connection. This prevents
DNS rebinding.
"""

import re
import socket
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from fairwarning.core.errors import Refused
from fairwarning.core.record import record
from fairwarning.service.webhooks import limits

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], list[str]]
"""The addresses of a host, as text."""

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = rf"\[[0-9A-Fa-f:.]+\]|{_LABEL}(?:\.{_LABEL})*"
_URL = (
    rf"(?ai)(?P<scheme>https?)://(?P<host>{_HOST})(?::(?P<port>[0-9]{{1,5}}))?(?P<path>[/?][!-~]*)?"
)
_ENTRY = rf"(?ai)(?P<wild>\*\.)?(?P<host>{_HOST})(?::(?P<port>[0-9]{{1,5}}))?"
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII | re.IGNORECASE)
_PORT_MAX = 65535

_FORBIDDEN = (
    ip_network("169.254.0.0/16"),
    ip_network("fe80::/10"),
    ip_network("168.63.129.16/32"),
    ip_network("100.100.100.200/32"),
    ip_network("fd00:ec2::254/128"),
)
"""Metadata services of clouds and similar: they trust every client that can reach them."""
_NAT64 = ip_network("64:ff9b::/96")
_IPV4_COMPATIBLE = ip_network("::/96")


@record
class AllowedUrl:
    """The parts of an allowed URL."""

    secure: bool
    host: str  # a name in lower case, or an address
    port: int
    path: str  # with its query

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


class AllowedTargets:
    """The hosts that webhooks may be sent to: `host`, `host:port` or `*.example.com`."""

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self.allow = tuple(allow)
        self._entries = frozenset(_entry(text) for text in self.allow)

    def check(self, url: str) -> AllowedUrl:
        """Return the target of a URL; refuse it unless the operator allows it."""
        target = _parse(url)
        if not self._allows(target):
            raise Refused("TargetNotAllowed", self._not_allowed_text(target))
        if address := _as_address(target.host):
            check_address(address, target.host)
        return target

    def _allows(self, target: AllowedUrl) -> bool:
        labels = [] if _as_address(target.host) else target.host.split(".")
        parents = (".".join(labels[n:]) for n in range(1, len(labels)))
        hosts = [(False, target.host), *((True, parent) for parent in parents)]
        return any(
            (wild, host, port) in self._entries
            for wild, host in hosts
            for port in (None, target.port)
        )

    def _not_allowed_text(self, target: AllowedUrl) -> str:
        allowed = ", ".join(self.allow) or "none"
        return (
            f"webhooks may not be sent to {target.authority}; allowed: {allowed}. Add the host to "
            "webhook_hosts under [console] in the fleet file"
        )


def check_address(address: Address, host: str) -> None:
    """Refuse a forbidden address, even if the operator allows the host."""
    for candidate in (address, *_embedded_ipv4(address)):
        if any(candidate in network for network in _FORBIDDEN):
            raise Refused(
                "TargetForbidden",
                f"{host} has the address {address}: webhooks are never sent to link-local "
                "addresses or to metadata services of clouds; use another host",
            )


def addresses(target: AllowedUrl, resolve: Resolve) -> list[str]:
    """Resolve the target; refuse it if any of its addresses is forbidden."""
    resolved = resolve(target.host, target.port)
    for text in resolved:
        check_address(ip_address(text), target.host)
    return resolved


def look_up(host: str, port: int) -> list[str]:
    """Resolve a host with the system's resolver, in its order of preference."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]).partition("%")[0] for *_, address in infos))


def _parse(url: str) -> AllowedUrl:
    if len(url) > limits.URL_CHARACTERS or "#" in url:
        raise _bad_url()
    match = re.fullmatch(_URL, url)
    if match is None:
        raise _bad_url()
    secure = match["scheme"].lower() == "https"
    port = int(match["port"]) if match["port"] else (443 if secure else 80)
    path = match["path"] or "/"
    host = _host(match["host"])
    if host is None or not 0 < port <= _PORT_MAX:
        raise _bad_url()
    return AllowedUrl(
        secure=secure, host=host, port=port, path=path if path[0] == "/" else f"/{path}"
    )


def _bad_url() -> Refused:
    return Refused(
        "BadUrl",
        "a webhook's url must be https://HOST[:PORT]/PATH or http://..., at most "
        f"{limits.URL_CHARACTERS} ASCII characters, without spaces, user name, password or "
        "fragment; HOST is a name without a trailing dot (an internationalized name as xn--), an "
        "IPv4 address of four decimal numbers, or an IPv6 address in brackets",
    )


def _host(text: str) -> str | None:
    """Return the host in canonical form; None if it looks like an address but is not one."""
    if text.startswith("[") or _NUMBER.fullmatch(text.rpartition(".")[2]):
        try:
            return str(ip_address(text.strip("[]")))
        except ValueError:
            return None
    return text.lower()


def _entry(text: str) -> tuple[bool, str, int | None]:
    match = re.fullmatch(_ENTRY, text)
    host = _host(match["host"]) if match else None
    port = int(match["port"]) if match and match["port"] else None
    wild = bool(match and match["wild"])
    bad_port = port is not None and not 0 < port <= _PORT_MAX
    if host is None or bad_port or (wild and _as_address(host)):
        raise Refused(
            "BadWebhookHost",
            f"{text[:100]!r} is not a valid webhook host: write 'host', 'host:port' or "
            "'*.example.com', and an IPv6 address in brackets",
        )
    return wild, host, port


def _as_address(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _embedded_ipv4(address: Address) -> list[Address]:
    """The IPv4 addresses that an IPv6 address embeds."""
    if isinstance(address, IPv4Address):
        return []
    embedded: list[Address | None] = [address.ipv4_mapped, address.sixtofour]
    if address in _NAT64 or address in _IPV4_COMPATIBLE:
        embedded.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [ipv4 for ipv4 in embedded if ipv4 is not None]
