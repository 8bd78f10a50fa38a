"""The signal that ends open streams when the service shuts down."""

from dataclasses import dataclass, field

from fairwarning.service.fleet import Fleet


@dataclass
class ShutdownSignal:
    """Whether shutdown has begun. Streams have no end of their own and check this."""

    fleet: Fleet
    begun: bool = field(default=False, init=False)

    def begin(self) -> None:
        """Begin shutdown and wake the streams."""
        self.begun = True
        self.fleet.publisher.notify_readers()
