"""A range of time in the query of a page: absolute, or around now."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from fairwarning.console.page.charts import timeline
from fairwarning.console.page.request import PageRequest
from fairwarning.core.errors import Refused
from fairwarning.core.times import iso, parse_date

_SHORTEST, _LONGEST = 60, 31 * 86400


@dataclass(frozen=True)
class TimeRange:
    """A range with links to others; `values` are the filters that the links keep."""

    path: str
    values: Mapping[str, str]
    scale: timeline.TimeScale
    window: int  # seconds around now; 0: absolute

    def here(self, **changes: str) -> str:
        """Return the same range with other filters; an empty value leaves one out."""
        values = {**self.values, **changes}
        if self.window:
            values["window"] = str(self.window)
        else:
            values |= {"from": iso(self.scale.begin), "to": iso(self.scale.end)}
        return self._link({name: value for name, value in values.items() if value})

    def link(self, begin: float, end: float) -> str:
        """Return the same page of another range."""
        return self._link({**self.values, "from": iso(int(begin)), "to": iso(int(end))})

    def window_link(self, seconds: int) -> str:
        """Return the same page of a window around now."""
        return self._link({**self.values, "window": str(seconds)})

    def _link(self, values: Mapping[str, str]) -> str:
        return f"{self.path}?{urlencode(values)}"

    def links(self) -> list[tuple[str, str]]:
        """Return the ways to go on from here."""
        begin, end = self.scale.begin, self.scale.end
        half = (end - begin) / 2
        ways = [("Earlier", self.link(begin - half, end - half))]
        if half * 2 > _SHORTEST * 2:
            ways.append(("Zoom in", self.link(begin + half / 2, end - half / 2)))
        if half * 4 <= _LONGEST:
            ways.append(("Zoom out", self.link(begin - half, end + half)))
        return [*ways, ("Later", self.link(begin + half, end + half))]


def time_range(request: PageRequest, filters: tuple[str, ...]) -> TimeRange:
    """Read the range of a query: `from` and `to`, or `window`."""
    values = {name: value for name in filters if (value := request.query(name))}
    now = int(request.fleet.clock.now())
    path = str(request.request.scope["path"])
    if request.query("from") or request.query("to"):
        begin, end = (_time(request, name) for name in ("from", "to"))
        if not _SHORTEST <= end - begin <= _LONGEST:
            raise Refused("BadQuery", "to must be a minute to 31 days after from")
        return TimeRange(path, values, timeline.TimeScale(begin, end, now), 0)
    seconds = request.query_integer("window")
    if seconds not in timeline.WINDOWS:
        seconds = timeline.DEFAULT_WINDOW
    return TimeRange(path, values, timeline.window(now, seconds), seconds)


def _time(request: PageRequest, name: str) -> int:
    text = request.query(name)
    if not text:
        raise Refused("BadQuery", "from and to belong together")
    return parse_date(text)
