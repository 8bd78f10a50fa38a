"""What a domain's metadata says: which machine it is, and what was done to it last.

Whatever process comes to a domain, on whichever host, reads here how far an impact got (E9). Only
values; who writes them, and when, stands in `claim.py`.
"""

from collections.abc import Iterator
from enum import StrEnum
from xml.etree import ElementTree as ET

from fairwarning.core.record import changed, record

MACHINE = "urn:fairwarning:machine:1"
"""The namespace of the element by which an operator names a domain's machine."""

RECORD = "urn:fairwarning:impact:1"
"""The namespace of the element that is ours."""

PREFIX = "fairwarning-impact"
_REMEMBERED = 16  # a process that was away for long may hand over what others did meanwhile


class ImpactStage(StrEnum):
    """How far the impact is."""

    CLAIMED = "claimed"  # nothing has happened yet
    BEGUN = "begun"
    FROZEN = "frozen"
    OVER = "over"


@record
class DomainRecord:
    """The last impact on a domain, who is at it, and those that were carried out.

    `before` stands in the running domain alone, never in its stored definition. A domain that is
    powered off forgets it, so it says that the domain still runs as it did when the impact began.
    """

    impact: str = ""
    step: ImpactStage = ImpactStage.OVER
    began_at: float = 0.0
    home: str = ""  # the host on which it began
    before: bool = False
    by: str = ""  # the driver that is at it, if any
    beat: int = 0  # counts on while it is
    done: tuple[str, ...] = ()

    def claimed(self, impact: str, by: str) -> "DomainRecord":
        """A driver takes it over; an impact that was begun stays as far as it is."""
        if self.impact == impact and self.step is not ImpactStage.OVER:
            return changed(self, by=by, beat=self.beat + 1)
        return DomainRecord(impact=impact, step=ImpactStage.CLAIMED, by=by, done=self.done)

    def finished(self) -> "DomainRecord":
        """It was carried out."""
        done = (*self.done, self.impact)[-_REMEMBERED:]
        return DomainRecord(impact=self.impact, done=done)


def write(value: DomainRecord) -> str:
    """As XML."""
    element = ET.Element("impact", dict(_attributes(value)))
    for impact in value.done:
        ET.SubElement(element, "done", id=impact)
    return ET.tostring(element, encoding="unicode")


def _attributes(value: DomainRecord) -> Iterator[tuple[str, str]]:
    yield "id", value.impact
    yield "step", value.step
    if value.step is not ImpactStage.OVER:
        yield "began-at", repr(value.began_at)
        yield "home", value.home
        yield "before", "yes" if value.before else "no"
        yield "by", value.by
        yield "beat", str(value.beat)


def read(text: str) -> DomainRecord:
    """From XML. What is not as we write it counts as nothing: no impact was begun."""
    try:
        element = ET.fromstring(text)  # noqa: S314  (libvirt's, which has parsed it already)
        return DomainRecord(
            impact=element.get("id", ""),
            step=ImpactStage(element.get("step", "")),
            began_at=float(element.get("began-at", "0")),
            home=element.get("home", ""),
            before=element.get("before") == "yes",
            by=element.get("by", ""),
            beat=int(element.get("beat", "0")),
            done=tuple(one.get("id", "") for one in element.iter("done")),
        )
    except (ET.ParseError, ValueError):
        return DomainRecord()


def is_machine(text: str, scope: str, machine: str) -> bool:
    """Whether an operator's element names this machine; without a scope it fits every scope."""
    element = ET.fromstring(text)  # noqa: S314  (as above)
    return element.get("name") == machine and element.get("scope", scope) == scope
