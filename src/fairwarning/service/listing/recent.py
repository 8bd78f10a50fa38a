"""What happened lately, for charts: read from the journal once, then only what is new."""

from collections.abc import Iterable

from fairwarning.core.decision import CARRIED_OUT, FactType
from fairwarning.core.model import Scope
from fairwarning.service.fleet import Fleet
from fairwarning.service.history.events import EventHistory, JournalEntry, add_line
from fairwarning.service.listing.journal import first_after
from fairwarning.service.listing.kept import KeptWhileUsed

DAY_SECONDS = 86400.0
LINES = 20_000
"""Journal lines read at most, the newest of a range."""
_PAGE = 200
_LEAD_SECONDS = 3600.0  # before a range: most of its events were announced then
_RANGES = 4  # of the past that are kept


class HistoryRange:
    """What the journal says of a range of time. Times before `begins` are incomplete."""

    def __init__(self, begins: float, entries: Iterable[JournalEntry] = ()) -> None:
        self.begins = begins
        self.events: dict[str, EventHistory] = {}
        self.sudden: list[tuple[float, str, int]] = []
        """Impacts without notice: when, in which scope, on how many machines."""
        self.failed: set[tuple[str, str]] = set()
        """Machines, with their scopes, whose last impact failed."""
        for entry in entries:
            self.add(entry)

    def add(self, entry: JournalEntry) -> None:
        """Add a line; lines come oldest first."""
        add_line(self.events, entry)
        (kind, scope), fact, at = entry.line.entity, entry.line.fact, entry.line.at
        if kind is not Scope:
            return
        machines = [(scope, name) for name in fact.machines]
        match fact.type:
            case FactType.IMPACT_BEGUN:
                self.failed.difference_update(machines)
                if not fact.event:
                    self.sudden.append((at, scope, len(machines)))
            case FactType.IMPACT_FAILED:
                self.failed.update(machines)
            case FactType.MACHINE_REMOVED:
                self.failed.difference_update(machines)
            case FactType.REPORTED_LATE if fact.detail == CARRIED_OUT:
                self.failed.difference_update(machines)


class RecentHistory(KeptWhileUsed):
    """The last day, as of the last `refresh`; and ranges before it, on demand."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self._fleet = fleet

    def _forget(self) -> None:
        self.day = HistoryRange(0.0)
        self._past: dict[tuple[float, float], HistoryRange] = {}
        self._last = -1  # number of the last line
        self._added = 0  # lines

    async def refresh(self) -> HistoryRange:
        """Read the lines that are new since the last call."""
        self._note_use()
        async with self._lock:
            newest = await self._fleet.reader.latest_lines(1)
            last = newest[0].number if newest else 0
            # Now and then all is read again, so that memory does not grow for ever.
            if self._last < 0 or not self._last <= last <= self._last + LINES - self._added:
                begins = self._fleet.clock.now() - DAY_SECONDS
                self.day = await self._read(begins, last + 1)
                self._last, self._added = last, 0
            while self._last < last:
                entries = await self._fleet.reader.journal(after=self._last, limit=_PAGE)
                for entry in entries:
                    self.day.add(entry)
                self._last = entries[-1].number if entries else last
                self._added += len(entries)
            return self.day

    async def between(self, begins: float, ends: float) -> HistoryRange:
        """Return what is known of a range: the last day if it reaches into that."""
        day = await self.refresh()
        if begins >= day.begins or ends >= self._fleet.clock.now():
            return day
        async with self._lock:
            if (begins, ends) not in self._past:
                before = await first_after(self._fleet, ends)
                self._past[begins, ends] = await self._read(begins - _LEAD_SECONDS, before)
                for old in list(self._past)[:-_RANGES]:
                    del self._past[old]
            return self._past[begins, ends]

    async def _read(self, begins: float, before: int | None) -> HistoryRange:
        """Read the newest lines since `begins` and before a line."""
        entries: list[JournalEntry] = []
        while len(entries) < LINES:
            page = await self._fleet.reader.latest_lines(_PAGE, before=before)
            entries += page
            if len(page) < _PAGE or page[-1].line.at < begins:
                break
            before = page[-1].number
        else:
            begins = max(begins, entries[-1].line.at)
        history = HistoryRange(begins)
        await self._fleet.reader.share.map(history.add, entries[::-1])
        return history
