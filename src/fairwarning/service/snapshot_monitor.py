"""Watches for transactions in the database that stay open for long.

While one is open, PostgreSQL has to keep every version of every row that it could still read:
tables grow, and reads of rows that change often get slower.
"""

import logging

from fairwarning.service.metrics import Metric, gauge

log = logging.getLogger(__name__)

LONG_SECONDS = 60.0


class SnapshotMonitor:
    """The age of the oldest open transaction of a shared store; 0 for any other store."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._is_long = False

    def update(self, seconds: float) -> None:
        """Log when a transaction has been open for long, and when it has ended."""
        self.seconds = seconds
        if (seconds > LONG_SECONDS) == self._is_long:
            return
        self._is_long = not self._is_long
        if self._is_long:
            log.warning(
                "a transaction has been open in the database for %.0f s: old row versions "
                "accumulate; end it, or wait for the end of a dump (see pg_stat_activity)",
                seconds,
            )
        else:
            log.warning("the long transaction in the database has ended")

    def metrics(self) -> list[Metric]:
        """The current age."""
        text = "Seconds for which the oldest transaction in the database has been open."
        return [gauge("fairwarning_oldest_snapshot_seconds", text, self.seconds)]
