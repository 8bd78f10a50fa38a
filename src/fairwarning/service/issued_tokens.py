"""The tokens that a service has issued: recorded when issued, and revoked one by one (C7).

Every token and every revocation is a note of its own, so processes that write at the same time
lose nothing. Revocations are kept in memory, where `Tokens` looks them up; with a shared store,
each process reads those of the others within `FOLLOW_SECONDS`.
"""

import asyncio
import logging
import re
import secrets
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import msgspec

from fairwarning.core.errors import FairwarningError, NotFound, Refused, Unavailable
from fairwarning.core.record import record
from fairwarning.service.fleet import Fleet
from fairwarning.service.tokens import ID_BYTES, Principal, TokenClaims, Tokens, TokenUse
from fairwarning.store.store import Batch

log = logging.getLogger(__name__)

FOLLOW_SECONDS = 1.0
KEEP_SECONDS = 24 * 3600
"""How long a revocation outlives its token: a clock that is set back must not revive the token."""
_DROP_SECONDS = 3600.0
_PAGE = 1000
_TOKENS = "token "
_REVOKED = "revoked-token "
_LATEST = "latest revocation"  # changes with every revocation; a new value means: read them again
_ID = re.compile(rf"[0-9a-f]{{{2 * ID_BYTES}}}", re.ASCII)

T = TypeVar("T")


@record
class Revocation:
    """When a token was revoked, and when it would have expired."""

    at: int
    expires_at: int


_UNREADABLE = Revocation(at=0, expires_at=2**62)
"""What a note of a revocation means that cannot be read: the token stays revoked."""


@record
class SignedToken:
    """A new token: its text, which is not stored, and its claims."""

    text: str
    claims: TokenClaims


@record
class TokenRecord:
    """A token that was issued, and when it was revoked."""

    claims: TokenClaims
    revoked_at: int | None


class IssuedTokens:
    """Issues, lists and revokes the tokens of one service."""

    def __init__(self, verifier: Tokens, fleet: Fleet) -> None:
        self.verifier = verifier
        self.listeners: list[Callable[[], None]] = []
        """Called after tokens were revoked, in this or another process."""
        self._fleet = fleet
        self._store = fleet.store
        self._prefix = f"{_TOKENS}{verifier.key_id} "  # tokens of another key are worthless
        self._latest: str | None = None
        self._revocations: dict[str, Revocation] = {}
        verifier.revoked = self._revocations

    # --- Issuing ---

    async def issue(
        self,
        use: TokenUse,
        principal: Principal,
        seconds: int | None = None,
        *,
        parent: TokenClaims | None = None,
    ) -> SignedToken:
        """Return a new token once its record is durable."""
        self._fleet.check_writing()
        claims = self.verifier.new(use, principal, seconds, parent=parent)
        text = self.verifier.sign(claims)
        await self._write({self._prefix + claims.id: _encode(claims)})
        return SignedToken(text=text, claims=claims)

    async def page(self, after: str, limit: int) -> tuple[list[TokenRecord], str | None]:
        """Return tokens that have not expired, by id, and where the next page starts, if any."""
        if after and not _ID.fullmatch(after):
            raise Refused("BadQuery", "after must be `next` of the previous page")
        await self.refresh()
        notes = await self._store.list_notes(self._prefix, self._prefix + after, limit)
        issued = [_read(value, TokenClaims) for value in notes.values()]
        now = self.verifier.now()
        records = [self._record(claims) for claims in issued if claims and claims.expires_at > now]
        return records, max(notes).removeprefix(self._prefix) if len(notes) == limit else None

    async def get(self, name: str) -> TokenRecord:
        """Return the token of this id."""
        note = await self._store.get_note(self._prefix + name) if _ID.fullmatch(name) else None
        claims = _read(note, TokenClaims) if note else None
        if claims is None:
            text = f"there is no token {name[:60]!r}; run `fairwarning token list` for the ids"
            raise NotFound("UnknownToken", text)
        await self.refresh()
        return self._record(claims)

    def _record(self, claims: TokenClaims) -> TokenRecord:
        revocations = [
            self._revocations[name]
            for name in (claims.id, claims.parent)
            if name in self._revocations
        ]
        revoked_at = min((revocation.at for revocation in revocations), default=None)
        return TokenRecord(claims=claims, revoked_at=revoked_at)

    # --- Revoking ---

    async def revoke(self, *tokens: TokenClaims, actor: str) -> None:
        """Refuse these tokens, and those that were got with them, from now on.

        It is the one write that goes on after writes have stopped (IS4): a lost token is worse.
        """
        now = int(self.verifier.now())
        revocations = {
            token.id: Revocation(at=now, expires_at=token.expires_at)
            for token in tokens
            if token.id not in self._revocations
        }
        notes = {_REVOKED + name: _encode(kept) for name, kept in revocations.items()}
        if not notes:
            return
        await self._write({**notes, _LATEST: secrets.token_hex(ID_BYTES)})
        log.info("%s revoked the tokens %s", actor, ", ".join(revocations))
        self._revocations |= revocations
        self._notify()

    def _notify(self) -> None:
        for listener in tuple(self.listeners):
            listener()

    async def refresh(self) -> None:
        """Read the revocations, if there are new ones."""
        latest = await self._store.get_note(_LATEST)  # before the list: a later one is read again
        if latest == self._latest:
            return
        async for name, value in self._notes(_REVOKED):
            kept = _read(value, Revocation) or _UNREADABLE
            self._revocations[name.removeprefix(_REVOKED)] = kept
        self._latest = latest
        self._notify()

    async def follow(self) -> None:
        """Read the revocations of other processes until cancelled."""
        while self._store.shared:
            await asyncio.sleep(FOLLOW_SECONDS)
            try:
                await self.refresh()
            except Unavailable:
                continue  # the change feed reports that the database is unavailable
            except Exception:
                log.exception("cannot read the revocations of other processes; retrying")

    # --- Expiry ---

    async def run_expiry(self) -> None:
        """Drop the records of expired tokens once an hour, until cancelled."""
        while True:
            try:
                await self.drop_expired()
            except FairwarningError as error:
                log.warning("cannot drop expired tokens, will retry: %s", error.message)
            except Exception:
                log.exception("cannot drop expired tokens, will retry")
            await asyncio.sleep(_DROP_SECONDS)

    async def drop_expired(self) -> None:
        """Drop expired tokens, and revocations that no clock can need any more."""
        self._fleet.check_writing()
        now = self.verifier.now()
        limit = now - KEEP_SECONDS
        tokens = {
            name: value
            async for name, value in self._notes(_TOKENS)
            if (claims := _read(value, TokenClaims)) and claims.expires_at <= now
        }
        revoked = {
            name: value
            async for name, value in self._notes(_REVOKED)
            if (kept := _read(value, Revocation)) and kept.expires_at < limit
        }
        await self._store.drop_notes(tokens | revoked)
        for name in [n for n, kept in self._revocations.items() if kept.expires_at < limit]:
            del self._revocations[name]

    # --- Notes ---

    async def _notes(self, prefix: str) -> AsyncIterator[tuple[str, str]]:
        after = ""
        while notes := await self._store.list_notes(prefix, after, _PAGE):
            for name, value in notes.items():
                yield name, value
                after = name

    async def _write(self, notes: dict[str, str]) -> None:
        await self._store.commit(Batch(self._fleet.clock.now(), notes=notes))


def _encode(value: TokenClaims | Revocation) -> str:
    return msgspec.json.encode(value).decode()


def _read(value: str, kind: type[T]) -> T | None:
    """Decode a note; None if it cannot be read, which must hold up no other (IB1)."""
    try:
        return msgspec.json.decode(value, type=kind)
    except msgspec.DecodeError:
        return None
