"""The probes: for each the bytes, and the one answer that is allowed.

The names are stable: a finding is reported by the name of its probe.
"""

from dataclasses import dataclass

from tests.hostile.wire import POLL


@dataclass(frozen=True)
class Probe:
    """Bytes as they are sent, each part by itself, and what must come of them."""

    name: str
    parts: tuple[bytes, ...]
    answers: tuple[int, ...] = ()  # in order; none: closed without a word
    closed: bool = True  # nothing can be asked after it
    reason: str = ""  # the refusal that is counted
    approves: bool = False  # it has an approval that must be carried out


def refused(name: str, status: int, reason: str, *parts: bytes, closed: bool = False) -> Probe:
    """It is refused, and the connection is kept unless it can be in step no more."""
    return Probe(name, parts, (status,), closed, reason)


def malformed(name: str, *parts: bytes) -> Probe:
    """It is no HTTP, so nothing after it can be trusted."""
    return Probe(name, parts, (400,), closed=True, reason="malformed")


def served(name: str, *parts: bytes, closed: bool = False, approves: bool = False) -> Probe:
    """It looks odd, but is in order."""
    return Probe(name, parts, (200,), closed, approves=approves)


def after_good(probe: Probe) -> Probe:
    """The same behind a good poll, in one piece: the poll is answered as if nothing followed."""
    parts = (POLL + b"".join(probe.parts),)
    answers = (200, *probe.answers)
    return Probe(f"{probe.name}-behind-a-poll", parts, answers, probe.closed, probe.reason)
