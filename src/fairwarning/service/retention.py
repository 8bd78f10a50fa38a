"""Drops what the journal need not tell any more."""

import asyncio
import logging

from fairwarning.core.errors import FairwarningError
from fairwarning.service.fleet import Fleet
from fairwarning.service.settings import Journal

log = logging.getLogger(__name__)

_DUTY = "journal"
_DAY_SECONDS = 24 * 3600
_LOOK_SECONDS = 3600.0  # real ones; what is a few hours older than need be hurts nobody


async def forget_old(fleet: Fleet, days: int) -> int:
    """Drop lines that are older, if that falls to this process; how many."""
    dropped = 0
    if await fleet.store.own(_DUTY):
        while lines := await fleet.store.forget(fleet.clock.now() - days * _DAY_SECONDS):
            dropped += lines
            await asyncio.sleep(0)  # polls and commands come first
    return dropped


async def keep_short(fleet: Fleet, journal: Journal) -> None:
    """For as long as the service is up, if anything is to be dropped at all."""
    while journal.keep_days:
        try:
            if dropped := await forget_old(fleet, journal.keep_days):
                log.info("dropped %d old lines of the journal", dropped)
        except FairwarningError as error:
            log.warning("old lines of the journal stay for now: %s", error.message)
        await asyncio.sleep(_LOOK_SECONDS)
