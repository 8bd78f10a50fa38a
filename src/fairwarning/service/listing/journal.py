"""Journal lines that a filter allows, the newest first."""

import re

from fairwarning.core.cascade import JournalLine
from fairwarning.core.decision import FactType
from fairwarning.core.model import Ref
from fairwarning.core.record import record
from fairwarning.service.fleet import Fleet
from fairwarning.service.history.events import JournalEntry
from fairwarning.service.history.explanations import detail_text
from fairwarning.service.listing.filters import has_text

_PAGE = 100
LINES = 20_000
"""Searched for a page, which may then be short."""
_DISORDER_SECONDS = 3600
"""Lines are in order of time, but for deliveries, and for processes that write at once."""
_WORDS = {type_: re.sub(r"(?<!^)(?=[A-Z])", " ", type_.value) for type_ in FactType}


@record
class JournalFilter:
    """Conditions on a journal line; all must hold. An empty field allows everything."""

    about: str = ""  # a scope, set, machine, operation, rollout or event, by its name
    actor: str = ""
    type: str = ""
    since: float | None = None
    until: float | None = None
    text: str = ""  # anywhere in the line, in any case

    def allows(self, line: JournalLine) -> bool:
        """Whether all conditions hold."""
        return (
            (not self.type or line.fact.type == self.type)
            and (not self.actor or line.actor == self.actor)
            and (self.since is None or int(line.at) >= self.since)
            and (self.until is None or int(line.at) <= self.until)
            and (not self.about or _is_about(line, self.about))
            and (not self.text or has_text(self.text, _places(line)))
        )


EVERY_LINE = JournalFilter()


def _is_about(line: JournalLine, name: str) -> bool:
    """Whether a line is about this name; the parts of a set or a rollout are NAME/PART."""
    entity, fact = line.entity[1], line.fact
    if name in {entity, fact.operation, *fact.machines} or name.upper() == fact.event:
        return True
    scope, _, machine = name.rpartition("/")
    return (
        entity.startswith(f"{name}/")
        or fact.operation.startswith(f"{name}/")
        or (entity == scope and machine in fact.machines)
    )


def _places(line: JournalLine) -> tuple[str, ...]:
    (kind, name), fact = line.entity, line.fact
    what = (fact.type.value, _WORDS[fact.type], fact.event, fact.operation, detail_text(fact))
    return (f"{kind.__name__} {name}", line.actor, *what, *fact.machines)


async def newest_lines(
    fleet: Fleet,
    wanted: JournalFilter,
    before: int | None,
    limit: int,
    entity: Ref | None = None,
) -> tuple[list[JournalEntry], int | None]:
    """Return lines, of one entity if given, and the line before which the next page begins.

    The latter is None if there is no older line to search.
    """
    size = limit if wanted == EVERY_LINE else _PAGE
    if before is None and entity is None and wanted.until is not None:
        before = await first_after(fleet, wanted.until + _DISORDER_SECONDS)
    entries: list[JournalEntry] = []
    searched = 0
    while searched < LINES:
        lines = await fleet.reader.latest_lines(size, before=before, entity=entity)
        for entry in lines:
            before = entry.number
            if wanted.since is not None and entry.line.at < wanted.since - _DISORDER_SECONDS:
                return entries, None
            entries += [entry] if wanted.allows(entry.line) else []
            if len(entries) == limit:
                return entries, before
        searched += len(lines)
        if len(lines) < size:
            return entries, None
    return entries, before


async def first_after(fleet: Fleet, moment: float) -> int | None:
    """Return a line before which all lines up to this time are; None if there is none."""
    newest = await fleet.reader.latest_lines(1)
    if not newest or newest[0].line.at <= moment:
        return None
    low, high = 0, newest[0].number
    while high - low > _PAGE:
        middle = (low + high) // 2
        following = await fleet.reader.journal(after=middle, limit=1)
        if not following or following[0].line.at > moment:
            high = middle + 1
        else:
            low = following[0].number
    return high
