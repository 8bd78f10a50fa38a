"""Records of tokens: what is kept, what is dropped, and what other processes see."""

import asyncio
from pathlib import Path

import pytest

from fairwarning.core.errors import NotFound, Unavailable
from fairwarning.server import start_token
from fairwarning.server.ready import ReadyLine, read_ready, write_ready
from fairwarning.service.clock import RealClock
from fairwarning.service.fleet import Fleet
from fairwarning.service.issued_tokens import KEEP_SECONDS, IssuedTokens
from fairwarning.service.tokens import Principal, Role, Tokens, TokenUse, Unauthorized
from fairwarning.store.memory import MemoryStore
from fairwarning.store.store import Batch
from tests.fixtures.fleet import simulated_driver
from tests.fixtures.waiting import wait_until_async

pytestmark = pytest.mark.spec("C7")

ANNA = Principal(name="anna", role=Role.TENANT, group="shop")
KEY = b"k" * 32


class Clock:
    """Real time, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self.readings = 0

    def __call__(self) -> float:
        self.readings += 1
        return self.now


async def started(store: MemoryStore, clock: Clock, key: bytes = KEY) -> IssuedTokens:
    """The tokens of a process that has just started on this store."""
    await store.open()
    fleet = Fleet(store, RealClock(), simulated_driver(RealClock()))
    issued = IssuedTokens(Tokens(key, "t", clock), fleet)
    await issued.refresh()
    return issued


async def names(store: MemoryStore) -> set[str]:
    """The first words of the names of all notes."""
    return {name.partition(" ")[0] for name in await store.list_notes("", "", 1000)}


async def test_a_revocation_is_kept_for_as_long_as_its_token_could_be_accepted() -> None:
    """Also if the clock is set back after the token has expired; then both are dropped."""
    store, clock = MemoryStore(), Clock()
    issued = await started(store, clock)
    token = await issued.issue(TokenUse.API, ANNA, 60)
    await issued.revoke(token.claims, actor="test")
    clock.now += 60 + KEEP_SECONDS
    await issued.drop_expired()
    assert await names(store) == {"revoked-token", "latest"}
    clock.now -= 60 + KEEP_SECONDS
    with pytest.raises(Unauthorized, match="revoked"):
        issued.verifier.read(token.text, TokenUse.API)
    clock.now += 61 + KEEP_SECONDS
    await issued.drop_expired()
    assert await names(store) == {"latest"}
    with pytest.raises(NotFound):
        await issued.get(token.claims.id)


async def test_only_expired_records_are_dropped() -> None:
    """Of both kinds."""
    store, clock = MemoryStore(), Clock()
    issued = await started(store, clock)
    short = await issued.issue(TokenUse.API, ANNA, 60)
    long, other = [await issued.issue(TokenUse.API, ANNA, 10**7) for _ in range(2)]
    await issued.revoke(short.claims, long.claims, actor="test")
    clock.now += 2 * KEEP_SECONDS
    await issued.drop_expired()
    records, after = await issued.page("", 10)
    assert {record.claims.id for record in records} == {long.claims.id, other.claims.id}
    assert after is None
    later = await started(store, clock)
    with pytest.raises(Unauthorized, match="revoked"):
        later.verifier.read(long.text, TokenUse.API)
    assert later.verifier.read(other.text, TokenUse.API) == other.claims


async def test_expired_tokens_are_not_listed() -> None:
    """They are worth nothing, although their records are kept for a while."""
    store, clock = MemoryStore(), Clock()
    issued = await started(store, clock)
    await issued.issue(TokenUse.API, ANNA, 60)
    clock.now += 60
    assert await issued.page("", 10) == ([], None)


async def test_tokens_of_an_earlier_key_are_not_listed() -> None:
    """They were worth nothing from the moment the key was replaced."""
    store, clock = MemoryStore(), Clock()
    token = await (await started(store, clock)).issue(TokenUse.API, ANNA)
    later = await started(store, clock, b"n" * 32)
    assert await later.page("", 10) == ([], None)
    with pytest.raises(NotFound):
        await later.get(token.claims.id)


async def test_concurrent_revocations_lose_none() -> None:
    """Two processes revoke at the same time; a third knows all of them at its next refresh."""
    store, clock = MemoryStore(), Clock()
    one, two, three = [await started(store, clock) for _ in range(3)]
    tokens = [await one.issue(TokenUse.API, ANNA) for _ in range(20)]
    await asyncio.gather(
        *(
            (one, two)[number % 2].revoke(token.claims, actor="test")
            for number, token in enumerate(tokens)
        )
    )
    await three.refresh()
    assert all(three.verifier.is_revoked(token.claims) for token in tokens)


@pytest.mark.spec("X7")
async def test_a_note_that_cannot_be_read() -> None:
    """It keeps its own token revoked, and no other revocation or expired token from its due."""
    store, clock = MemoryStore(), Clock()
    issued = await started(store, clock)
    bad, revoked, expired = [await issued.issue(TokenUse.API, ANNA, n) for n in (10**6, 10**6, 60)]
    await issued.revoke(revoked.claims, actor="test")
    notes = await store.list_notes("", "", 99)
    broken = {name: "{" for name in notes if bad.claims.id in name}
    await store.commit(Batch(0.0, notes={**broken, f"revoked-token {bad.claims.id}": "{"}))
    other = await started(store, clock)
    assert other.verifier.is_revoked(bad.claims)
    assert other.verifier.is_revoked(revoked.claims)
    clock.now += 60
    await other.drop_expired()
    assert not [name for name in await store.list_notes("", "", 99) if expired.claims.id in name]
    records, _ = await other.page("", 10)
    assert [each.claims for each in records] == [revoked.claims]


async def test_a_revocation_is_durable_before_it_is_answered() -> None:
    """If the store is unavailable, the caller is told, and the token stays valid everywhere."""
    store, clock = MemoryStore(), Clock()
    issued = await started(store, clock)
    token = await issued.issue(TokenUse.API, ANNA)
    await store.close()
    with pytest.raises(Unavailable):
        await issued.revoke(token.claims, actor="test")
    with pytest.raises(Unavailable):
        await issued.issue(TokenUse.API, ANNA)
    await store.open()
    assert issued.verifier.read(token.text, TokenUse.API) == token.claims


# --- The start token ------------------------------------------------------------------------------


class RenewedToken:
    """The start token of a service whose clock the test moves."""

    def __init__(self, folder: Path, issued: IssuedTokens) -> None:
        self.folder = folder
        self.issued = issued

    async def new(self) -> ReadyLine:
        token = await self.issued.issue(TokenUse.API, ANNA, start_token.START_TOKEN_SECONDS)
        return {"token": token.text}  # type: ignore[typeddict-item]

    async def __aenter__(self) -> ReadyLine:
        ready = await self.new()
        write_ready(self.folder, ready)
        self._task = asyncio.create_task(
            start_token.renew(self.folder, ready, self.issued, self.new)
        )
        return ready

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        assert self.issued.listeners == []


async def test_the_start_token_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half-way through its life, and not before; the old one stays valid to its end."""
    monkeypatch.setattr(start_token, "_CHECK_SECONDS", 0.001)
    clock = Clock()
    issued = await started(MemoryStore(), clock)
    async with RenewedToken(tmp_path, issued) as first:
        clock.now += start_token.RENEW_SECONDS - 1
        readings = clock.readings
        await wait_until_async(lambda: clock.readings > readings + 3, "some checks")
        assert read_ready(tmp_path) == first
        clock.now += 1
        await wait_until_async(lambda: read_ready(tmp_path) != first, "a new token in up.json")
        for text in (first["token"], read_ready(tmp_path)["token"]):
            assert issued.verifier.read(text, TokenUse.API).principal == ANNA
        clock.now += start_token.START_TOKEN_SECONDS - start_token.RENEW_SECONDS
        with pytest.raises(Unauthorized, match="expired"):
            issued.verifier.read(first["token"], TokenUse.API)


@pytest.mark.parametrize("error", [OSError("no space left on device"), KeyError("bug")])
async def test_a_token_that_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Writing up.json is repeated, with the same token."""
    monkeypatch.setattr(start_token, "_CHECK_SECONDS", 0.001)
    written: list[ReadyLine] = []

    def write(folder: Path, ready: ReadyLine) -> None:
        written.append(ready)
        if len(written) < 3:
            raise error
        write_ready(folder, ready)

    monkeypatch.setattr(start_token, "write_ready", write)
    clock = Clock()
    issued = await started(MemoryStore(), clock)
    async with RenewedToken(tmp_path, issued) as first:
        clock.now += start_token.RENEW_SECONDS
        await wait_until_async(lambda: read_ready(tmp_path) != first, "a new token in up.json")
        assert written == [read_ready(tmp_path)] * 3
