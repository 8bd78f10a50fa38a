"""Parameter types for addresses and ports."""

import click

from fairwarning.metadata.listeners import LAST_PORT, PortRange, loopback_host


class Address(click.ParamType[tuple[str, int]]):
    """An address as HOST:PORT, with an IPv6 host in brackets; `localhost` is a loopback address."""

    name = "HOST:PORT"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Split the address into host and port."""
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        if not host or not is_port(port):
            self.fail(f"{value!r} is not HOST:PORT, such as 127.0.0.1:8169", param, ctx)
        host = host.removeprefix("[").removesuffix("]")
        return loopback_host() if host == "localhost" else host, int(port)


def is_port(text: str) -> bool:
    """Whether a text is the number of a port, or 0."""
    return text.isascii() and text.isdigit() and int(text) <= LAST_PORT


class Ports(click.ParamType[PortRange]):
    """Ports as FIRST-LAST, or FIRST- for all from the first on."""

    name = "FIRST-LAST"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> PortRange:
        """Split the range into its first and last port."""
        if isinstance(value, PortRange):
            return value
        first, dash, last = str(value).partition("-")
        last = last or str(LAST_PORT)
        if not dash or not (is_port(first) and is_port(last)) or not 0 < int(first) <= int(last):
            self.fail(f"{value!r} is not FIRST-LAST or FIRST-, such as 8200-9199", param, ctx)
        return PortRange(first=int(first), last=int(last))
