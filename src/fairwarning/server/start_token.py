"""The start token: commands on this host read it from up.json, and `up --json` prints the first.

It is short-lived. The service writes a new one to up.json well before it expires, and at once when
it is revoked (C7).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from fairwarning.core.errors import FairwarningError
from fairwarning.server.ready import READY, ReadyLine, write_ready
from fairwarning.service.issued_tokens import IssuedTokens
from fairwarning.service.tokens import TokenUse, Unauthorized

log = logging.getLogger(__name__)

START_TOKEN_SECONDS = 12 * 3600
RENEW_SECONDS = 6 * 3600  # the token in up.json is valid for at least the rest
_CHECK_SECONDS = 15.0  # short, because a sleep does not see time that the host was suspended


async def renew(
    folder: Path, ready: ReadyLine, tokens: IssuedTokens, new: Callable[[], Awaitable[ReadyLine]]
) -> None:
    """Keep a valid start token in up.json until cancelled; `ready` is what it contains now."""
    written = ready
    revoked = asyncio.Event()
    tokens.listeners.append(revoked.set)
    try:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(revoked.wait(), _CHECK_SECONDS)
            revoked.clear()
            try:
                if _is_due(ready["token"], tokens):
                    ready = await new()
                if ready is not written:
                    write_ready(folder, ready)
                    written = ready
            except (FairwarningError, OSError) as error:
                log.warning("cannot renew the token in %s, will retry: %s", folder / READY, error)
            except Exception:
                log.exception("cannot renew the token in %s, will retry", folder / READY)
    finally:
        tokens.listeners.remove(revoked.set)


def _is_due(token: str, tokens: IssuedTokens) -> bool:
    """Whether the token was revoked, or is due for renewal."""
    try:
        claims = tokens.verifier.read(token, TokenUse.API)
    except Unauthorized:
        return True
    return tokens.verifier.now() >= claims.created_at + RENEW_SECONDS
