"""Makes durable changes visible: in the published documents, and to whoever follows them."""

import logging
from collections.abc import Callable
from typing import ParamSpec

from fairwarning.core.model import Scope
from fairwarning.service import failpoints
from fairwarning.service.documents import DocumentCache
from fairwarning.service.polls import PollLog
from fairwarning.service.writer.batch import CommandBatch

P = ParamSpec("P")
log = logging.getLogger(__name__)


class Publisher:
    """Publishes scopes, and calls the callbacks that others have added."""

    def __init__(self, documents: DocumentCache, polls: PollLog) -> None:
        self.followers: list[Callable[[str, Scope | None], None]] = []
        """Called with each changed scope once the change is durable; None: it was removed.

        Of scopes that another process changed, only those published here are passed."""
        self.watchers: list[Callable[[], None]] = []
        """Called after any scope has changed, in this or another process."""
        self.readers: list[Callable[[], None]] = []
        """Called when the journal has new lines or the clock was changed."""
        self._documents = documents
        self._polls = polls

    def make_visible(self, work: CommandBatch) -> None:
        """Publish what a batch has changed."""
        for name, scope in work.scopes():
            self.publish(name, scope)
        self.notify_watchers()
        if work.lines:
            self.notify_readers()
        failpoints.hit("publish.after")

    def show_newer(self, work: CommandBatch) -> None:
        """Publish loaded scopes that other processes wrote and that are not published yet."""
        for (_, name), entity in work.loaded.items():
            published = self._documents.get(name) if isinstance(entity, Scope) else None
            if isinstance(entity, Scope) and published is not None and published.is_older(entity):
                self.publish(name, entity)

    def publish(self, name: str, scope: Scope | None) -> None:
        """Publish a scope; None: it was removed."""
        self._documents.publish(name, scope)
        if scope and scope.enabled:
            self._polls.drop_stored(scope)
        else:
            self._polls.forget(name)
        for follower in self.followers:
            _call(follower, name, scope)

    def notify_watchers(self) -> None:
        """Call the watchers."""
        for watcher in self.watchers:
            _call(watcher)

    def notify_readers(self) -> None:
        """Call the readers."""
        for reader in tuple(self.readers):
            _call(reader)


def _call(callback: Callable[P, None], *args: P.args, **named: P.kwargs) -> None:
    """Call back; one that fails disturbs neither the others nor the commit."""
    try:
        callback(*args, **named)
    except Exception:
        log.exception("%r failed", callback)
