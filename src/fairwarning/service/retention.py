"""Deletes journal lines that are older than the retention period."""

import asyncio
import logging

from fairwarning.core.errors import FairwarningError
from fairwarning.service.config.settings import JournalSettings
from fairwarning.service.fleet import Fleet

log = logging.getLogger(__name__)

_DUTY = "journal"
_DAY_SECONDS = 24 * 3600
_CHECK_SECONDS = 3600.0  # in real time; lines may be up to an hour older than the setting


async def drop_old_lines(fleet: Fleet, days: int) -> int:
    """Delete older lines, if this process has that duty; return how many."""
    dropped = 0
    if await fleet.store.claim_duty(_DUTY):
        while lines := await fleet.store.drop_old_lines(fleet.clock.now() - days * _DAY_SECONDS):
            dropped += lines
            await asyncio.sleep(0)  # let polls and commands run
    return dropped


async def run_retention(fleet: Fleet, journal: JournalSettings) -> None:
    """Delete old lines until cancelled, if a retention period is set."""
    while journal.keep_days:
        try:
            if dropped := await drop_old_lines(fleet, journal.keep_days):
                log.info("deleted %d old journal lines", dropped)
        except FairwarningError as error:
            log.warning("cannot delete old journal lines, will retry: %s", error.message)
        await asyncio.sleep(_CHECK_SECONDS)
