"""Parameter types for addresses and ports."""

from fairwarning.cli.parameters.parameter_types import Parsed
from fairwarning.metadata.listeners import LAST_PORT, PortRange, loopback_host


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not is_port(port):
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8169")
    host = host.removeprefix("[").removesuffix("]")
    return loopback_host() if host == "localhost" else host, int(port)


def is_port(text: str) -> bool:
    """Whether a text is the number of a port, or 0."""
    return text.isascii() and text.isdigit() and int(text) <= LAST_PORT


def _ports(text: str) -> PortRange:
    first, dash, last = text.partition("-")
    last = last or str(LAST_PORT)
    if not dash or not (is_port(first) and is_port(last)) or not 0 < int(first) <= int(last):
        raise ValueError(f"{text!r} is not FIRST-LAST or FIRST-, such as 8200-9199")
    return PortRange(first=int(first), last=int(last))


ADDRESS = Parsed("HOST:PORT", _address)
"""An address as HOST:PORT, with an IPv6 host in brackets; `localhost` is a loopback address."""

PORTS = Parsed("FIRST-LAST", _ports)
"""Ports as FIRST-LAST, or FIRST- for all from the first on."""
