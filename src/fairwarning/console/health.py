"""Whether the service accepts commands; it answers polls in any case (IS4)."""

from typing import NamedTuple

from fairwarning.service.fleet import Fleet


class Problem(NamedTuple):
    """Why the service does not accept commands: one word, and a sentence."""

    status: str
    text: str


async def find_problem(fleet: Fleet) -> Problem | None:
    """Return why the service does not accept commands now; None if it does."""
    if fleet.broken:
        return Problem(
            "stopped", "writes have stopped and reads continue; see the log for the cause"
        )
    if fleet.documents.is_stale():
        text = "the database has been unreachable for too long; polls fail until it is back"
        return Problem("stale", text)
    # The heartbeat writes to a shared store and reports its failure as stale.
    if not fleet.following and (failed := await fleet.store_check.error()):
        text = f"the store cannot be written ({failed.code}) and reads continue; see the log"
        return Problem("unwritable", text)
    return None
