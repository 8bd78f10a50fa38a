"""Leaves the load balancer before an event, and returns when it is over. Uses the SDK, no agent.

The load balancer probes /healthz. While an event is scheduled or in progress, the answer is 503,
and the load balancer removes this machine after some failed probes. Then the event is approved.
"""

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fairwarning import Event, Phase, ScheduledEvents

FAILED_PROBES = 2  # after which this load balancer sends no more requests


class Health:
    """The health of this machine, and the number of failed probes."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._events: set[str] = set()
        self._failed_probes = 0

    def probe(self) -> int:
        """Return the status for a probe."""
        with self._changed:
            if not self._events:
                return 200
            self._failed_probes += 1
            self._changed.notify_all()
            return 503

    def leave(self, event: Event, seconds: float) -> bool:
        """Fail probes; return whether there were enough of them in the seconds that are left."""
        with self._changed:
            self._events.add(event.id)
            self._failed_probes = 0
            return self._changed.wait_for(lambda: self._failed_probes >= FAILED_PROBES, seconds)

    def come_back(self, event: Event) -> None:
        """Stop failing probes, unless another event is scheduled."""
        with self._changed:
            self._events.discard(event.id)


def serve(health: Health, port: int) -> None:
    """Answer /healthz in a thread."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(health.probe() if self.path == "/healthz" else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main() -> None:
    """Watch for events and handle them one after the other."""
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
                print(f"{event.type} is over: in rotation", flush=True)
            elif change.phase is Phase.SCHEDULED:
                left = health.leave(event, event.seconds_left(client.now()))
                state = "out of rotation" if left else "still in rotation"
                print(f"{event.type} is scheduled: {state}", flush=True)
                if left and event.concerns_only(me):  # other machines may not be ready
                    client.approve(event)


if __name__ == "__main__":
    main()
