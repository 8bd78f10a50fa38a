"""The documents machines read, ready to send. A reader never waits for the store or a lock.

Only scopes that somebody reads are kept; the fleet publishes here what it has committed, and only
then (durable before visible).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import monotonic
from weakref import WeakValueDictionary

from fairwarning.core.document import document
from fairwarning.core.errors import NotFound
from fairwarning.core.model import Scope

Callback = Callable[[], None]
Answers = dict[str, bytes]
"""What was rendered of a document, by whatever key its reader likes."""

_TOLD_AT_ONCE = 256
_ALIKE = 256  # incarnations, from 0: few scopes without events have seen more


class PublishedScope:
    """A scope as its machines see it. It stays the same object while the scope is there."""

    __slots__ = ("__weakref__", "_empty", "_followers", "answers", "scope")

    def __init__(self, empty: Sequence[Answers] = ()) -> None:
        self.scope: Scope | None = None
        self.answers: Answers = {}
        """Of this document; another dictionary when it changes."""
        self._empty = empty
        self._followers: dict[Callback, None] | None = None  # mostly nobody

    @property
    def incarnation(self) -> int:
        """0 while the feature is off or the scope is gone."""
        return self.scope.incarnation if self.scope else 0

    def is_older(self, scope: Scope) -> bool:
        """Whether this is of an earlier version of the scope."""
        return self.scope is not None and self.scope.version < scope.version

    def body(self, api_version: str) -> bytes:
        """The document at an api-version."""
        if self.scope is None:
            raise NotFound("UnknownScope", "this machine is gone")
        return document(self.scope, api_version)

    def replace(self, scope: Scope | None) -> None:
        """A new state is durable: show it, and wake who waits if the document is another."""
        changed = self.incarnation != (scope.incarnation if scope else 0)
        self.scope = scope
        if changed or scope is None:
            self.answers = self._answers_of(scope)
            if self._followers:
                followers, self._followers = self._followers, None
                asyncio.get_running_loop().call_soon(_tell, list(followers))

    def _answers_of(self, scope: Scope | None) -> Answers:
        """Without events, documents of one incarnation are alike: a million share what is sent."""
        if scope is None or scope.events or scope.incarnation >= len(self._empty):
            return {}
        return self._empty[scope.incarnation]

    def follow(self, callback: Callback) -> None:
        """Call back, once, when the incarnation is another (M18): no task, no future."""
        if self._followers is None:
            self._followers = {}
        self._followers[callback] = None

    def unfollow(self, callback: Callback) -> None:
        """Given up: a held request must leave nothing behind."""
        if self._followers:
            self._followers.pop(callback, None)


class DocumentCache:
    """All documents somebody reads, by scope."""

    def __init__(self, load: Callable[[str], Awaitable[Scope | None]]) -> None:
        self._load = load
        # A scope that nobody asks for any more goes with the last who did.
        self._published: WeakValueDictionary[str, PublishedScope] = WeakValueDictionary()
        self._empty: list[Answers] = [{} for _ in range(_ALIKE)]
        self._loading: dict[str, asyncio.Future[Scope | None]] = {}
        self.fresh_until: float | None = None
        """By `time.monotonic`; None where nobody else writes."""

    def is_stale(self) -> bool:
        """Whether nothing of this may be told, for it may be too old (IK3)."""
        return self.fresh_until is not None and monotonic() > self.fresh_until

    def scopes(self) -> Iterable[str]:
        """Those that somebody reads."""
        return self._published

    def get(self, scope: str) -> PublishedScope | None:
        """What is ready to be sent, if anybody asked before. A dictionary look-up, nothing more."""
        return self._published.get(scope)

    async def fetch(self, scope: str) -> PublishedScope:
        """The same, loading the scope the first time."""
        published = self._published.get(scope)
        if published is None or published.scope is None:
            # On record before loading, so that a commit in the meantime is not missed.
            published = self._published.setdefault(scope, PublishedScope(self._empty))
            loaded = await self._load_once(scope)
            newest = _newer(published.scope, loaded)
            if self._published.get(scope) is not published:
                newest = None  # removed in the meantime
            elif newest is None:
                del self._published[scope]
            if newest is None:
                raise NotFound("UnknownScope", f"there is no scope {scope!r}")
            published.replace(newest)
        return published

    async def _load_once(self, scope: str) -> Scope | None:
        """Machines of a scope that ask at the same moment are answered from one load."""
        loading = self._loading.get(scope)
        if loading is None:
            loading = self._loading[scope] = asyncio.ensure_future(self._load(scope))
            loading.add_done_callback(lambda done: self._loaded(scope, done))
        return await asyncio.shield(loading)

    def _loaded(self, scope: str, done: "asyncio.Future[Scope | None]") -> None:
        del self._loading[scope]
        if not done.cancelled():
            done.exception()  # those who asked may all be gone

    def publish(self, scope: str, state: Scope | None) -> None:
        """A change is durable."""
        published = self._published.get(scope)
        if published is not None:
            published.replace(state)
            if state is None:
                del self._published[scope]


def _tell(followers: list[Callback]) -> None:
    """Some now and the rest in a moment: ten thousand must not hold everybody else up."""
    loop = asyncio.get_running_loop()
    for callback in followers[:_TOLD_AT_ONCE]:
        loop.call_soon(callback)
    if rest := followers[_TOLD_AT_ONCE:]:
        loop.call_soon(_tell, rest)


def _newer(one: Scope | None, other: Scope | None) -> Scope | None:
    if one is None or other is None:
        return one or other
    return one if one.version >= other.version else other
