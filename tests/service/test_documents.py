import asyncio
from collections.abc import Callable, Sequence

import pytest

from fairwarning.core.errors import NotFound, Unavailable
from fairwarning.core.model import Event, EventStatus, EventType, Machine, Scope, ScopeKind, Source
from fairwarning.core.record import changed
from fairwarning.service.documents import DocumentCache, PublishedScope
from tests.fixtures.fleet import NEWEST, wait_for_change
from tests.fixtures.waiting import wait_until_async

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


def _cache_of(scope: Scope | None) -> DocumentCache:
    async def load(names: Sequence[str]) -> dict[str, Scope]:
        return dict.fromkeys(names, scope) if scope else {}

    return DocumentCache(load)


class _SlowLoad:
    """A slow store; the test sets the result of the load."""

    def __init__(self) -> None:
        self.result: asyncio.Future[Scope | None] = asyncio.get_running_loop().create_future()
        self.calls = 0

    async def __call__(self, _: Sequence[str]) -> dict[str, Scope]:
        self.calls += 1
        scope = await self.result
        return {"vm": scope} if scope else {}


async def test_responses_are_kept_until_the_document_changes() -> None:
    """Rendered responses are kept until the document changes."""
    documents = _cache_of(_scope(1))
    published = await documents.fetch("vm")
    published.answers["any"] = b"rendered"
    documents.publish("vm", _scope(1, version=2, polled_at=5))  # not visible in the document
    assert published.answers == {"any": b"rendered"}
    documents.publish("vm", _scope(2, version=3))
    assert published.answers == {}
    assert b'"DocumentIncarnation":2' in published.body(NEWEST)


async def test_readers_are_woken_by_a_change_and_only_then() -> None:
    """All held requests return when the document changes, and not before."""
    documents = _cache_of(_scope(1))
    published = await documents.fetch("vm")
    readers = [asyncio.create_task(wait_for_change(published, 1)) for _ in range(3)]
    await wait_until_async(lambda: len(published._listeners or ()) == 3)
    documents.publish("vm", _scope(1, version=2, polled_at=9))
    documents.publish("other", _scope(7))
    await asyncio.sleep(0)
    assert not any(reader.done() for reader in readers)
    documents.publish("vm", _scope(2, version=3))
    await asyncio.gather(*readers)
    assert not published._listeners


def test_a_scope_that_was_not_loaded_has_no_document() -> None:
    """A scope that was not loaded has incarnation 0 and no document."""
    published = PublishedScope()
    assert published.incarnation == 0
    with pytest.raises(NotFound):
        published.body(NEWEST)


async def test_equal_documents_share_their_responses() -> None:
    """Scopes without events share responses by incarnation; a scope with events has its own."""
    documents = _cache_of(_scope(1))
    vm, other = await documents.fetch("vm"), await documents.fetch("other")
    assert vm.answers is other.answers
    assert vm.body(NEWEST) == other.body(NEWEST)
    vm.answers["any"] = b"rendered"
    documents.publish("vm", changed(_scope(2, version=2), events={"e": _EVENT}))
    documents.publish("other", _scope(2, version=2))
    assert vm.answers == other.answers == {}
    assert vm.answers is not other.answers
    documents.publish("vm", _scope(1_000_000, version=3))  # high incarnations are not shared
    documents.publish("other", _scope(1_000_000, version=3))
    assert vm.answers is not other.answers


async def test_readers_are_woken_when_the_scope_is_deleted() -> None:
    """Deleting the scope wakes its readers, and they get NotFound."""
    documents = _cache_of(_scope(1))
    published = await documents.fetch("vm")
    reader = asyncio.create_task(wait_for_change(published, 1))
    await wait_until_async(lambda: bool(published._listeners))
    documents.publish("vm", None)
    await reader
    with pytest.raises(NotFound):
        published.body(NEWEST)
    assert documents.get("vm") is None


async def _fetch_during(
    load: "_SlowLoad", publish: Callable[[DocumentCache], None], loaded: Scope | None
) -> "tuple[DocumentCache, asyncio.Task[PublishedScope]]":
    """Fetch a scope; publish during the load, then finish the load."""
    documents = DocumentCache(load)
    reading = asyncio.create_task(documents.fetch("vm"))
    await wait_until_async(lambda: load.calls == 1)
    publish(documents)
    load.result.set_result(loaded)
    await asyncio.wait([reading])
    return documents, reading


@pytest.mark.parametrize("published", [2, 3])
@pytest.mark.parametrize("loaded", [None, 2, 3])
async def test_a_change_during_the_first_load(published: int, loaded: int | None) -> None:
    """The newer of the published and the loaded scope counts, and later changes are visible."""
    documents, reading = await _fetch_during(
        _SlowLoad(),
        lambda documents: documents.publish("vm", _scope(published, version=published)),
        _scope(loaded, version=loaded) if loaded else None,
    )
    assert (await reading).incarnation == max(published, loaded or 0)
    documents.publish("vm", _scope(4, version=4))
    assert (await reading).incarnation == 4


async def test_a_scope_deleted_during_the_first_load() -> None:
    """A scope that is deleted during the load is not found."""
    _, reading = await _fetch_during(
        _SlowLoad(), lambda documents: documents.publish("vm", None), _scope(2, version=2)
    )
    assert isinstance(reading.exception(), NotFound)


async def test_concurrent_first_readers_share_the_scope() -> None:
    """Readers that arrive during the load share the scope, and see its later changes."""
    load = _SlowLoad()
    documents = DocumentCache(load)
    readers = [asyncio.create_task(documents.fetch("vm")) for _ in range(2)]
    await wait_until_async(lambda: load.calls > 0)
    load.result.set_result(_scope(1))
    first, second = await asyncio.gather(*readers)
    assert first is second
    documents.publish("vm", _scope(2, version=2))
    assert second.incarnation == 2


async def test_unknown_scopes_are_not_cached() -> None:
    """Requests for unknown scopes use no memory."""
    documents = _cache_of(None)
    for n in range(10):
        with pytest.raises(NotFound):
            await documents.fetch(f"no{n}")
        assert documents.get(f"no{n}") is None


async def test_a_load_that_fails_can_be_repeated() -> None:
    """While the store is unavailable, fetching fails; afterwards it works."""
    load = _SlowLoad()
    documents = DocumentCache(load)
    load.result.set_exception(Unavailable("StoreDown", "later"))
    with pytest.raises(Unavailable):
        await documents.fetch("vm")
    load.result = asyncio.get_running_loop().create_future()
    load.result.set_result(_scope(1))
    assert (await documents.fetch("vm")).incarnation == 1


async def test_a_scope_without_readers_is_not_cached() -> None:
    """A scope without readers is not cached, and leaves the cache with its last reader."""
    loads: list[str] = []

    async def load(names: Sequence[str]) -> dict[str, Scope]:
        loads.extend(names)
        return {"vm": _scope(4, version=4)}

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
