"""Leaves the load balancer before an event, and comes back when it is over. No agent: the SDK.

The balancer asks /healthz. From the moment an event is announced it is told 503, and takes this
machine out after some refusals. The event is approved once it had them.
"""

import sys
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fairwarning import Event, Phase, ScheduledEvents

REFUSALS = 2  # after so many, this balancer sends nobody any more


class Health:
    """Whether this machine takes requests, and how often it was said that it does not."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._events: set[str] = set()
        self._refusals = 0

    def probe(self) -> int:
        """The status for a balancer that asks."""
        with self._changed:
            if not self._events:
                return 200
            self._refusals += 1
            self._changed.notify_all()
            return 503

    def leave(self, event: Event) -> bool:
        """Whether the balancer must have understood, in the time there is."""
        with self._changed:
            self._events.add(event.id)
            self._refusals = 0
            left = event.seconds_left(datetime.now(UTC))
            return self._changed.wait_for(lambda: self._refusals >= REFUSALS, left)

    def come_back(self, event: Event) -> None:
        """Be well again, unless something else is planned."""
        with self._changed:
            self._events.discard(event.id)


def serve(health: Health, port: int) -> None:
    """Answer /healthz, beside all else."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(health.probe() if self.path == "/healthz" else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main() -> None:
    """Watch for events, one after the other."""
    health = Health()
    serve(health, int(sys.argv[1]))
    with ScheduledEvents() as client:
        me = client.me()
        for change in client.watch():
            event = change.event
            if not event.concerns(me):
                continue
            if change.phase is Phase.OVER:
                health.come_back(event)
                print(f"{event.type} is over: back", flush=True)
            elif change.phase is Phase.SCHEDULED:
                left = health.leave(event)
                print(f"told of {event.type}, {'left' if left else 'still in'}", flush=True)
                if left and len(event.resources) == 1:  # others that it names may not be ready
                    client.approve(event)


if __name__ == "__main__":
    main()
