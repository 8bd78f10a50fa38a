import asyncio
from collections.abc import Callable

import pytest

from fairwarning.core.errors import NotFound, Unavailable
from fairwarning.core.model import (
    Event,
    EventStatus,
    EventType,
    Machine,
    Scope,
    ScopeKind,
    Source,
)
from fairwarning.core.record import changed
from fairwarning.service.documents import DocumentCache, PublishedScope
from tests.fixtures.fleet import NEWEST, wait_for_change
from tests.fixtures.waiting import run_async, wait_until_async

_EVENT = Event(
    id="e",
    type=EventType.REBOOT,
    status=EventStatus.SCHEDULED,
    source=Source.PLATFORM,
    resources=("vm",),
    created_at=0.0,
    not_before=900,
    operation="",
)


def _scope(incarnation: int, version: int = 1, polled_at: float = 0.0) -> Scope:
    machines = {"vm": Machine(name="vm")}
    return Scope(
        id="vm",
        kind=ScopeKind.STANDALONE,
        machines=machines,
        incarnation=incarnation,
        polled_at=polled_at,
        version=version,
    )


def _of(scope: Scope | None) -> DocumentCache:
    async def load(_: str) -> Scope | None:
        return scope

    return DocumentCache(load)


class _SlowLoad:
    """A store that takes its time; a test says what it found."""

    def __init__(self) -> None:
        self.found: asyncio.Future[Scope | None] = asyncio.get_running_loop().create_future()
        self.asked = 0

    async def __call__(self, _: str) -> Scope | None:
        self.asked += 1
        return await self.found


@run_async
async def test_answers_are_kept_until_the_document_is_another() -> None:
    """What a reader rendered stays while nothing visible changes, and goes with the change."""
    documents = _of(_scope(1))
    published = await documents.fetch("vm")
    published.answers["any"] = b"rendered"
    documents.publish("vm", _scope(1, version=2, polled_at=5))  # nothing to be seen of that
    assert published.answers == {"any": b"rendered"}
    documents.publish("vm", _scope(2, version=3))
    assert published.answers == {}
    assert b'"DocumentIncarnation":2' in published.body(NEWEST)


@run_async
async def test_readers_are_woken_by_a_change_and_only_then() -> None:
    """A held request returns when the document is another, for all who wait, and not before."""
    documents = _of(_scope(1))
    published = await documents.fetch("vm")
    readers = [asyncio.create_task(wait_for_change(published, 1)) for _ in range(3)]
    await wait_until_async(lambda: len(published._followers or ()) == 3)
    documents.publish("vm", _scope(1, version=2, polled_at=9))
    documents.publish("other", _scope(7))
    await asyncio.sleep(0)
    assert not any(reader.done() for reader in readers)
    documents.publish("vm", _scope(2, version=3))
    await asyncio.gather(*readers)
    assert not published._followers


def test_what_was_never_loaded_is_off() -> None:
    """Nothing to show is no incarnation, so that nobody takes it for a document."""
    published = PublishedScope()
    assert published.incarnation == 0
    with pytest.raises(NotFound):
        published.body(NEWEST)


@run_async
async def test_documents_that_are_alike_share_what_was_rendered() -> None:
    """Without events only the incarnation is in a document; with one, it is the scope's own."""
    documents = _of(_scope(1))
    one, other = await documents.fetch("vm"), await documents.fetch("other")
    assert one.answers is other.answers
    assert one.body(NEWEST) == other.body(NEWEST)
    one.answers["any"] = b"rendered"
    documents.publish("vm", changed(_scope(2, version=2), events={"e": _EVENT}))
    documents.publish("other", _scope(2, version=2))
    assert one.answers == other.answers == {}
    assert one.answers is not other.answers
    documents.publish("vm", _scope(1_000_000, version=3))  # of so many, few are alike
    documents.publish("other", _scope(1_000_000, version=3))
    assert one.answers is not other.answers


@run_async
async def test_a_reader_who_is_behind_does_not_wait() -> None:
    """Asking for a change since an older incarnation returns at once."""
    published = await _of(_scope(5)).fetch("vm")
    await wait_for_change(published, 4)
    await wait_for_change(published, 0)


@run_async
async def test_readers_are_woken_when_the_scope_goes() -> None:
    """Who waits for a machine that is deleted is told, and reads that it is gone."""
    documents = _of(_scope(1))
    published = await documents.fetch("vm")
    reader = asyncio.create_task(wait_for_change(published, 1))
    await wait_until_async(lambda: bool(published._followers))
    documents.publish("vm", None)
    await reader
    with pytest.raises(NotFound):
        published.body(NEWEST)
    assert documents.get("vm") is None


@run_async
async def test_a_reader_who_gives_up_leaves_nothing_behind() -> None:
    """A held request that is cancelled is forgotten; the others stay."""
    published = await _of(_scope(1)).fetch("vm")
    readers = [asyncio.create_task(wait_for_change(published, 1)) for _ in range(3)]
    await wait_until_async(lambda: len(published._followers or ()) == 3)
    readers[1].cancel()
    await asyncio.wait([readers[1]])
    assert len(published._followers or ()) == 2
    published.replace(_scope(2))
    await asyncio.gather(readers[0], readers[2])
    assert not published._followers


@pytest.mark.parametrize("first", ["change", "hang up"])
@run_async
async def test_a_change_and_a_hang_up_at_once(first: str) -> None:
    """A reader cancelled in the moment it is woken does no harm."""
    published = await _of(_scope(1)).fetch("vm")
    reader = asyncio.create_task(wait_for_change(published, 1))
    await wait_until_async(lambda: bool(published._followers))
    if first == "hang up":
        reader.cancel()
    published.replace(_scope(2))
    reader.cancel()
    await asyncio.wait([reader])
    published.replace(_scope(3))
    assert not published._followers


async def _fetch_during(
    load: "_SlowLoad", happens: Callable[[DocumentCache], None], found: Scope | None
) -> "tuple[DocumentCache, asyncio.Task[PublishedScope]]":
    """A first read during which something is published; then the store answers."""
    documents = DocumentCache(load)
    reading = asyncio.create_task(documents.fetch("vm"))
    await wait_until_async(lambda: load.asked == 1)
    happens(documents)
    load.found.set_result(found)
    await asyncio.wait([reading])
    return documents, reading


@run_async
async def test_a_change_during_the_first_load_is_not_lost() -> None:
    """What was published while the store was being read wins over what was read."""
    newer = _scope(3, version=3)
    documents, reading = await _fetch_during(
        _SlowLoad(), lambda documents: documents.publish("vm", newer), _scope(2, version=2)
    )
    assert (await reading).incarnation == 3
    documents.publish("vm", _scope(4, version=4))
    assert (await reading).incarnation == 4


@run_async
async def test_an_older_change_does_not_win_over_what_was_read() -> None:
    """The store may have been read after the change that is published late."""
    older = _scope(2, version=2)
    _, reading = await _fetch_during(
        _SlowLoad(), lambda documents: documents.publish("vm", older), _scope(3, version=3)
    )
    assert (await reading).incarnation == 3


@run_async
async def test_a_scope_that_goes_during_the_first_load() -> None:
    """Its machine reads that it is gone, not what the scope was before."""
    _, reading = await _fetch_during(
        _SlowLoad(), lambda documents: documents.publish("vm", None), _scope(2, version=2)
    )
    assert isinstance(reading.exception(), NotFound)


@run_async
async def test_a_scope_that_comes_during_the_first_load() -> None:
    """It is read as it was published, and its later changes are seen by whoever reads it."""
    documents, reading = await _fetch_during(
        _SlowLoad(), lambda documents: documents.publish("vm", _scope(1)), None
    )
    assert (await reading).incarnation == 1
    documents.publish("vm", _scope(2, version=2))
    assert (await reading).incarnation == 2


@run_async
async def test_two_first_readers_share_what_they_find() -> None:
    """Readers that come while a scope is being loaded see its later changes like the first."""
    load = _SlowLoad()
    documents = DocumentCache(load)
    readers = [asyncio.create_task(documents.fetch("vm")) for _ in range(2)]
    await wait_until_async(lambda: load.asked > 0)
    load.found.set_result(_scope(1))
    one, two = await asyncio.gather(*readers)
    assert one is two
    documents.publish("vm", _scope(2, version=2))
    assert two.incarnation == 2


@run_async
async def test_nothing_is_kept_of_scopes_that_do_not_exist() -> None:
    """Asking for names at random fills no memory."""
    documents = _of(None)
    for n in range(10):
        with pytest.raises(NotFound):
            await documents.fetch(f"no{n}")
        assert documents.get(f"no{n}") is None


@run_async
async def test_a_load_that_fails_can_be_repeated() -> None:
    """While the store is away readers are told so; once it is back they read."""
    load = _SlowLoad()
    documents = DocumentCache(load)
    load.found.set_exception(Unavailable("StoreDown", "later"))
    with pytest.raises(Unavailable):
        await documents.fetch("vm")
    load.found = asyncio.get_running_loop().create_future()
    load.found.set_result(_scope(1))
    assert (await documents.fetch("vm")).incarnation == 1


@run_async
async def test_what_is_not_read_is_not_kept() -> None:
    """A change of a scope that nobody reads is passed over; the last reader takes it along."""
    loads: list[str] = []

    async def load(name: str) -> Scope | None:
        loads.append(name)
        return _scope(4, version=4)

    documents = DocumentCache(load)
    documents.publish("vm", _scope(3, version=3))
    assert documents.get("vm") is None
    published = await documents.fetch("vm")
    assert published.incarnation == 4
    assert await documents.fetch("vm") is published
    assert loads == ["vm"]
    del published
    assert documents.get("vm") is None
    assert list(documents.scopes()) == []
