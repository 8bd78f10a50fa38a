"""The exceptions of the simulator."""


class Violation(BaseException):
    """An invariant does not hold. Not an `Exception`, so that no handler catches it."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant


class Crash(BaseException):
    """The process is killed. Not an `Exception`, so that no handler catches it."""


def must(holds: object, invariant: str, text: str) -> None:
    """Raise a violation unless the condition holds."""
    if not holds:
        raise Violation(invariant, text)
