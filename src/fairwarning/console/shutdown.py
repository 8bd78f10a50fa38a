"""The end of a service, as far as answers without an end must know of it."""

from dataclasses import dataclass, field

from fairwarning.service.fleet import Fleet


@dataclass
class ShutdownSignal:
    """Whether the service is about to end: streams would go on for ever."""

    fleet: Fleet
    begun: bool = field(default=False, init=False)

    def __call__(self) -> bool:
        return self.begun

    def begin(self) -> None:
        """Let streams end."""
        self.begun = True
        for reader in tuple(self.fleet.readers):
            reader()
