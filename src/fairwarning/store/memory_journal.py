"""The journal of the memory store."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import islice

from fairwarning.core.cascade import JournalLine
from fairwarning.core.model import Ref
from fairwarning.store.store import JournalEntry

_DROPPED_AT_ONCE = 1000  # lines, as in SQLite


class MemoryJournal:
    """Lines in order of number. The index is built on first use."""

    def __init__(self) -> None:
        self._lines: list[JournalLine] = []
        self._dropped = 0  # the number of the line before the first of the list
        self._indexed = 0  # the number of the last line in the index
        self._numbers: dict[Ref | str, list[int]] = {}  # by entity, by event

    def add(self, lines: Iterable[JournalLine]) -> None:
        """Add lines at the end."""
        self._lines.extend(lines)

    def drop_old(self, before: float) -> int:
        """Drop some of the oldest lines from before a time, and return how many."""
        oldest = self._lines[:_DROPPED_AT_ONCE]
        count = max((n for n, line in enumerate(oldest, 1) if line.at < before), default=0)
        self._dropped += count
        for line in oldest[:count]:
            self._drop_from_index(line.entity)
            self._drop_from_index(line.fact.event)
        self._indexed = max(self._indexed, self._dropped)
        del self._lines[:count]
        return count

    def _drop_from_index(self, key: Ref | str) -> None:
        numbers = self._numbers.get(key)
        if numbers is not None:
            del numbers[: bisect_right(numbers, self._dropped)]
            if not numbers:
                del self._numbers[key]

    def after(self, after: int, limit: int, entity: Ref | None, event: str) -> list[JournalEntry]:
        """Return lines after a number, in order; optionally of one entity or event."""
        first = max(after, self._dropped)
        if entity is None and not event:
            at = first - self._dropped
            lines = self._lines[at : at + limit]
            return [JournalEntry(number, line) for number, line in enumerate(lines, first + 1)]
        self._index()
        numbers = self._numbers.get(event or entity or "", [])
        entries: list[JournalEntry] = []
        for number in islice(numbers, bisect_right(numbers, after), None):
            if len(entries) == limit:
                break
            entry = self._entry(number)
            if entity in {None, entry.line.entity}:
                entries.append(entry)
        return entries

    def between(self, operation: str, after: int, before: int, limit: int) -> list[JournalEntry]:
        """Return lines of an operation between two numbers, in order."""
        first = max(after, self._dropped)
        last = max(before - 1, first)
        lines = self._lines[first - self._dropped : last - self._dropped]
        entries = (
            JournalEntry(number, line)
            for number, line in enumerate(lines, first + 1)
            if line.fact.operation == operation
        )
        return list(islice(entries, limit))

    def newest(self, limit: int, before: int | None, entity: Ref | None) -> list[JournalEntry]:
        """Return the newest lines below a number, newest first; optionally of one entity."""
        if entity is None:
            end = self._dropped + len(self._lines)
            last = end if before is None else min(before - 1, end)
            numbers: Sequence[int] = range(last, max(last - limit, self._dropped), -1)
        else:
            self._index()
            own = self._numbers.get(entity, [])
            end = len(own) if before is None else bisect_left(own, before)
            numbers = own[max(end - limit, 0) : end][::-1]
        return [self._entry(number) for number in numbers]

    def _entry(self, number: int) -> JournalEntry:
        return JournalEntry(number, self._lines[number - 1 - self._dropped])

    def _index(self) -> None:
        for line in self._lines[self._indexed - self._dropped :]:
            self._indexed += 1
            self._numbers.setdefault(line.entity, []).append(self._indexed)
            if line.fact.event:
                self._numbers.setdefault(line.fact.event, []).append(self._indexed)
