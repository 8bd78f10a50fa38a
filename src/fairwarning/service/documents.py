"""The documents that machines read, ready to send. A reader never waits for the store or a lock.

The cache keeps only scopes that clients read. The fleet publishes a change here after its commit,
never before (durable before visible).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from time import monotonic
from weakref import WeakValueDictionary

from fairwarning.core.document import document
from fairwarning.core.errors import NotFound
from fairwarning.core.model import Scope
from fairwarning.service.shared_visits import SharedVisits

Callback = Callable[[], None]
Answers = dict[str, bytes]
"""Rendered responses for a document, whole or in part, by a key that the reader chooses."""

_CALLBACKS_PER_TURN = 256
_LOADED_AT_ONCE = 64
_SHARED_INCARNATIONS = 256  # from 0; few scopes without events have a higher incarnation


class PublishedScope:
    """A scope as its machines see it. It stays the same object while the scope exists."""

    __slots__ = ("__weakref__", "_empty", "_listeners", "_promised", "answers", "scope")

    def __init__(
        self, empty: Sequence[Answers] = (), promised: dict[int, float] | None = None
    ) -> None:
        self.scope: Scope | None = None
        self.answers: Answers = {}
        """The responses for this document; a new dictionary when the document changes."""
        self._empty = empty
        self._promised = {} if promised is None else promised
        self._listeners: dict[Callback, None] | None = None  # None: most scopes have none

    @property
    def incarnation(self) -> int:
        """The document's incarnation; 0 while the feature is off or the scope is deleted."""
        return self.scope.incarnation if self.scope else 0

    def is_older(self, scope: Scope) -> bool:
        """Whether this holds an earlier version of the scope."""
        return self.scope is not None and self.scope.version < scope.version

    def body(self, api_version: str) -> bytes:
        """The document at an api-version."""
        if self.scope is None:
            raise NotFound("UnknownScope", "this machine no longer exists")
        return document(self.scope, api_version)

    def replace(self, scope: Scope | None) -> None:
        """Show a committed state, and call the listeners if the document changed."""
        changed = self.incarnation != (scope.incarnation if scope else 0)
        self.scope = scope
        for event in scope.events.values() if scope else ():
            until = max(event.not_before, self._promised.get(event.clock_ahead, 0.0))
            self._promised[event.clock_ahead] = until
        if changed or scope is None:
            self.answers = self._answers_of(scope)
            if self._listeners:
                listeners, self._listeners = self._listeners, None
                asyncio.get_running_loop().call_soon(_call_listeners, list(listeners))

    def _answers_of(self, scope: Scope | None) -> Answers:
        """Scopes without events share their responses: one per incarnation serves all of them."""
        if scope is None or scope.events or scope.incarnation >= len(self._empty):
            return {}
        return self._empty[scope.incarnation]

    def add_listener(self, callback: Callback) -> None:
        """Call back once, when the incarnation changes (M18). This needs no task and no future."""
        if self._listeners is None:
            self._listeners = {}
        self._listeners[callback] = None

    def remove_listener(self, callback: Callback) -> None:
        """Remove a listener whose request has ended."""
        if self._listeners:
            self._listeners.pop(callback, None)


class DocumentCache:
    """All documents that clients read, by scope."""

    def __init__(self, load: Callable[[Sequence[str]], Awaitable[Mapping[str, Scope]]]) -> None:
        self._loads = SharedVisits(load, _LOADED_AT_ONCE)
        # A scope leaves the cache when its last reader drops its reference.
        self._published: WeakValueDictionary[str, PublishedScope] = WeakValueDictionary()
        self._empty: list[Answers] = [{} for _ in range(_SHARED_INCARNATIONS)]
        self.promised: dict[int, float] = {}
        """Until when events are shown that have a `clock_ahead`."""
        self.fresh_until: float | None = None
        """A `time.monotonic` value; None if no other process writes to the store."""

    def is_stale(self) -> bool:
        """Whether the documents may be too old to serve (IK3)."""
        return self.fresh_until is not None and monotonic() > self.fresh_until

    def scopes(self) -> Iterable[str]:
        """The scopes that clients read."""
        return self._published

    def get(self, scope: str) -> PublishedScope | None:
        """Return the scope if it is cached. This is only a dictionary look-up."""
        return self._published.get(scope)

    async def fetch(self, scope: str) -> PublishedScope:
        """Return the scope; load it if it is not cached."""
        published = self._published.get(scope)
        if published is None or published.scope is None:
            # Register before loading, so that no commit during the load is missed.
            published = self._published.setdefault(
                scope, PublishedScope(self._empty, self.promised)
            )
            loaded = await self._loads.read(scope)
            newest = _newer(published.scope, loaded)
            if self._published.get(scope) is not published:
                newest = None  # deleted during the load
            elif newest is None:
                del self._published[scope]
            if newest is None:
                raise NotFound("UnknownScope", f"there is no scope {scope!r}")
            published.replace(newest)
        return published

    def publish(self, scope: str, state: Scope | None) -> None:
        """Show a committed change."""
        published = self._published.get(scope)
        if published is not None:
            published.replace(state)
            if state is None:
                del self._published[scope]


def _call_listeners(listeners: list[Callback]) -> None:
    """Call listeners in groups, so that ten thousand of them do not block the event loop."""
    loop = asyncio.get_running_loop()
    for callback in listeners[:_CALLBACKS_PER_TURN]:
        loop.call_soon(callback)
    if rest := listeners[_CALLBACKS_PER_TURN:]:
        loop.call_soon(_call_listeners, rest)


def _newer(first: Scope | None, second: Scope | None) -> Scope | None:
    if first is None or second is None:
        return first or second
    return first if first.version >= second.version else second
