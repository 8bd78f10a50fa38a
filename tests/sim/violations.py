"""What the simulator looks for, and how it tells."""


class Violation(BaseException):
    """An invariant does not hold; not an `Exception`, so that no handler hides it."""

    def __init__(self, invariant: str, story: str) -> None:
        super().__init__(f"{invariant}: {story}")
        self.invariant = invariant


class Crash(BaseException):
    """The process is gone, as by kill -9; not an `Exception`, so that no handler survives it."""


def must(holds: object, invariant: str, story: str) -> None:
    """Raise unless it holds."""
    if not holds:
        raise Violation(invariant, story)
