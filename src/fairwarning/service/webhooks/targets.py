"""Where a webhook may go: to hosts that the operator allowed, and never to a link-local address.

An address is found once, checked, and then connected to, so that a name which answers differently
the second time gains nothing.
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
_URL = re.compile(
    rf"(?P<scheme>https?)://(?P<host>{_HOST})(?::(?P<port>[0-9]{{1,5}}))?(?P<path>[/?][!-~]*)?",
    re.ASCII | re.IGNORECASE,
)
_ENTRY = re.compile(
    rf"(?P<wild>\*\.)?(?P<host>{_HOST})(?::(?P<port>[0-9]{{1,5}}))?", re.ASCII | re.IGNORECASE
)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII | re.IGNORECASE)
_PORT_MAX = 65535

_FORBIDDEN = (
    ip_network("169.254.0.0/16"),
    ip_network("fe80::/10"),
    ip_network("168.63.129.16/32"),
)
"""Metadata services and the like: what answers there trusts whoever can reach it."""
_NAT64 = ip_network("64:ff9b::/96")
_IPV4_COMPATIBLE = ip_network("::/96")


@record
class AllowedUrl:
    """A URL that is allowed, in its parts."""

    secure: bool
    host: str  # a name in lower case, or an address
    port: int
    path: str  # with its query

    @property
    def authority(self) -> str:
        """What a Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


class AllowedTargets:
    """The hosts that webhooks may be sent to: `host`, `host:port` or `*.example.com`."""

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self.allow = tuple(allow)
        self._entries = frozenset(_entry(text) for text in self.allow)

    def check(self, url: str) -> AllowedUrl:
        """The target that a URL names; refused unless the operator allowed it."""
        target = _parse(url)
        if not self._allows(target):
            raise Refused("TargetNotAllowed", self._advice(target))
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

    def _advice(self, target: AllowedUrl) -> str:
        allowed = ", ".join(self.allow) or "none"
        return (
            f"webhooks may not be sent to {target.authority}; allowed: {allowed}. Add the host to "
            "webhook_hosts under [console] in the fleet file"
        )


def check_address(address: Address, host: str) -> None:
    """Refuse the addresses that nothing may be sent to, whoever allowed them."""
    for one in (address, *_inside(address)):
        if any(one in network for network in _FORBIDDEN):
            raise Refused(
                "TargetForbidden",
                f"{host} is at {address}: nothing is sent to link-local addresses or to "
                "168.63.129.16; name another host",
            )


def addresses(target: AllowedUrl, resolve: Resolve) -> list[str]:
    """Where the target is now. One forbidden address among them spoils all."""
    found = resolve(target.host, target.port)
    for text in found:
        check_address(ip_address(text), target.host)
    return found


def look_up(host: str, port: int) -> list[str]:
    """Ask the system, in the order it prefers."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(where[0]).partition("%")[0] for *_, where in found))


def _parse(url: str) -> AllowedUrl:
    if len(url) > limits.URL_CHARACTERS or "#" in url:
        raise _bad_url()
    found = _URL.fullmatch(url)
    if found is None:
        raise _bad_url()
    secure = found["scheme"].lower() == "https"
    port = int(found["port"]) if found["port"] else (443 if secure else 80)
    path = found["path"] or "/"
    host = _host(found["host"])
    if host is None or not 0 < port <= _PORT_MAX:
        raise _bad_url()
    return AllowedUrl(
        secure=secure, host=host, port=port, path=path if path[0] == "/" else f"/{path}"
    )


def _bad_url() -> Refused:
    return Refused(
        "BadUrl",
        "a webhook's url is https://HOST[:PORT]/PATH or http://..., at most "
        f"{limits.URL_CHARACTERS} ASCII characters without space, user name, password or "
        "fragment; HOST is a name without a final dot (an international one as xn--), four "
        "decimal numbers or an IPv6 address in brackets",
    )


def _host(text: str) -> str | None:
    """In its one spelling; None if it is none: what looks like an address has to be one."""
    if text.startswith("[") or _NUMBER.fullmatch(text.rpartition(".")[2]):
        try:
            return str(ip_address(text.strip("[]")))
        except ValueError:
            return None
    return text.lower()


def _entry(text: str) -> tuple[bool, str, int | None]:
    found = _ENTRY.fullmatch(text)
    host = _host(found["host"]) if found else None
    port = int(found["port"]) if found and found["port"] else None
    wild = bool(found and found["wild"])
    bad_port = port is not None and not 0 < port <= _PORT_MAX
    if host is None or bad_port or (wild and _as_address(host)):
        raise Refused(
            "BadWebhookHost",
            f"{text[:100]!r} is not a host that webhooks can be allowed for: write 'host', "
            "'host:port' or '*.example.com', an IPv6 address in brackets",
        )
    return wild, host, port


def _as_address(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _inside(address: Address) -> list[Address]:
    """IPv4 addresses that an IPv6 address is only another way to."""
    if isinstance(address, IPv4Address):
        return []
    found: list[Address | None] = [address.ipv4_mapped, address.sixtofour]
    if address in _NAT64 or address in _IPV4_COMPATIBLE:
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]
