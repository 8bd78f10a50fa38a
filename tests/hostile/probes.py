"""Probes: bytes to send, and the only response that is allowed.

The names are stable: a finding is reported by the name of its probe.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.wire import POLL

VALUES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("probes.toml").read_text("utf-8")
)
"""Texts for one place of a request each, by the name of their probe."""


@dataclass(frozen=True)
class Probe:
    """Bytes to send, part by part, and the expected result."""

    name: str
    parts: tuple[bytes, ...]
    statuses: tuple[int, ...] = ()  # in order; none: closed without a response
    closed: bool = True  # the connection closes after it
    reason: str = ""  # the reason in the metrics
    approves: bool = False  # it contains a valid approval


def refused(name: str, status: int, reason: str, *parts: bytes, closed: bool = False) -> Probe:
    """Return a probe that is refused; the connection stays open unless framing is lost."""
    return Probe(name, parts, (status,), closed, reason)


def too_large(name: str, *parts: bytes) -> Probe:
    """Return a probe whose body is too large; the rest of it is not read."""
    return refused(name, 413, "body", *parts, closed=True)


def malformed(name: str, *parts: bytes) -> Probe:
    """Return a probe that is not HTTP, so nothing after it can be trusted."""
    return Probe(name, parts, (400,), closed=True, reason="malformed")


def served(name: str, *parts: bytes, closed: bool = False, approves: bool = False) -> Probe:
    """Return a probe that looks odd but is valid."""
    return Probe(name, parts, (200,), closed, approves=approves)


def after_poll(probe: Probe) -> Probe:
    """Return the same probe behind a valid poll in one packet; the poll is answered as usual."""
    parts = (POLL + b"".join(probe.parts),)
    statuses = (200, *probe.statuses)
    return Probe(f"{probe.name}-behind-a-poll", parts, statuses, probe.closed, probe.reason)
