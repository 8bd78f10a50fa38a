"""A domain's metadata: which machine it is, and which impacts were executed on it.

Any process on any host reads here how far an impact got (E9). This module only holds the values;
`claim.py` writes them.
"""

from collections.abc import Iterator
from enum import StrEnum
from xml.etree import ElementTree as ET

from fairwarning.core.record import changed, record

MACHINE = "urn:fairwarning:machine:1"
"""Namespace of the element in which an operator names a domain's machine."""

RECORD = "urn:fairwarning:impact:1"
"""Namespace of the element that the driver writes."""

PREFIX = "fairwarning-impact"
_REMEMBERED = 16  # impacts; a process that was away for long may hand over what others executed


class ImpactStage(StrEnum):
    """How far an impact is."""

    CLAIMED = "claimed"  # nothing has happened yet
    BEGUN = "begun"
    FROZEN = "frozen"
    OVER = "over"


@record
class DomainRecord:
    """The last impact on a domain, the driver that executes it, and the impacts executed before.

    `not_restarted` is set in the running domain only, never in its stored definition. A domain
    loses it on power-off, so it shows that the domain has been running since the impact began.
    """

    impact: str = ""
    stage: ImpactStage = ImpactStage.OVER
    began_at: float = 0.0
    origin: str = ""  # the host on which the impact began
    not_restarted: bool = False
    owner: str = ""  # the driver that has claimed the domain, if any
    heartbeat: int = 0  # increases while the owner is alive
    done: tuple[str, ...] = ()

    def claimed(self, impact: str, owner: str) -> "DomainRecord":
        """Return the record claimed by a driver; an impact that has begun keeps its stage."""
        if self.impact == impact and self.stage is not ImpactStage.OVER:
            return changed(self, owner=owner, heartbeat=self.heartbeat + 1)
        return DomainRecord(impact=impact, stage=ImpactStage.CLAIMED, owner=owner, done=self.done)

    def finished(self) -> "DomainRecord":
        """Return the record after the impact was executed."""
        done = (*self.done, self.impact)[-_REMEMBERED:]
        return DomainRecord(impact=self.impact, done=done)


def write(value: DomainRecord) -> str:
    """Return the record as XML."""
    element = ET.Element("impact", dict(_attributes(value)))
    for impact in value.done:
        ET.SubElement(element, "done", id=impact)
    return ET.tostring(element, encoding="unicode")


def _attributes(value: DomainRecord) -> Iterator[tuple[str, str]]:
    yield "id", value.impact
    yield "step", value.stage
    if value.stage is not ImpactStage.OVER:
        yield "began-at", repr(value.began_at)
        yield "home", value.origin
        yield "before", "yes" if value.not_restarted else "no"
        yield "by", value.owner
        yield "beat", str(value.heartbeat)


def read(text: str) -> DomainRecord:
    """Parse XML. An element that is malformed counts as empty: no impact has begun."""
    try:
        element = ET.fromstring(text)  # noqa: S314  (libvirt's, which has parsed it already)
        return DomainRecord(
            impact=element.get("id", ""),
            stage=ImpactStage(element.get("step", "")),
            began_at=float(element.get("began-at", "0")),
            origin=element.get("home", ""),
            not_restarted=element.get("before") == "yes",
            owner=element.get("by", ""),
            heartbeat=int(element.get("beat", "0")),
            done=tuple(child.get("id", "") for child in element.iter("done")),
        )
    except (ET.ParseError, ValueError):
        return DomainRecord()


def is_machine(text: str, scope: str, machine: str) -> bool:
    """Return whether an operator's element names this machine; without a scope it fits any."""
    element = ET.fromstring(text)  # noqa: S314  (as above)
    return element.get("name") == machine and element.get("scope", scope) == scope


def machine_in(text: str) -> str:
    """Return the machine that an operator's element names, as `scope/name` or `name`."""
    element = ET.fromstring(text)  # noqa: S314  (as above)
    return "/".join(part for part in (element.get("scope"), element.get("name")) if part)
