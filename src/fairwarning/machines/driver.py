"""What a driver promises."""

from collections.abc import Callable
from typing import Protocol

from fairwarning.core.model import Impact

Report = Callable[[Impact, str], None]
"""Called once an impact is over: with an empty string when it was carried out, else why not."""


class Driver(Protocol):
    """Carries impacts out. The same impact may be given again after a restart: same id, same act.

    A driver that can tell that it carried an impact out already reports it without doing it
    twice; one that cannot may repeat it (E9).
    """

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Begin, and return at once; call `report` when it is over."""
