"""Drops what the journal need not tell any more."""

import asyncio
import logging

from fairwarning.core.errors import FairwarningError
from fairwarning.service.config.settings import JournalSettings
from fairwarning.service.fleet import Fleet

log = logging.getLogger(__name__)

_DUTY = "journal"
_DAY_SECONDS = 24 * 3600
_LOOK_SECONDS = 3600.0  # real ones; what is a few hours older than need be hurts nobody


async def drop_old_lines(fleet: Fleet, days: int) -> int:
    """Drop lines that are older, if that falls to this process; how many."""
    dropped = 0
    if await fleet.store.claim_duty(_DUTY):
        while lines := await fleet.store.drop_old_lines(fleet.clock.now() - days * _DAY_SECONDS):
            dropped += lines
            await asyncio.sleep(0)  # polls and commands come first
    return dropped


async def run_retention(fleet: Fleet, journal: JournalSettings) -> None:
    """For as long as the service is up, if anything is to be dropped at all."""
    while journal.keep_days:
        try:
            if dropped := await drop_old_lines(fleet, journal.keep_days):
                log.info("dropped %d old lines of the journal", dropped)
        except FairwarningError as error:
            log.warning("old lines of the journal stay for now: %s", error.message)
        await asyncio.sleep(_LOOK_SECONDS)
