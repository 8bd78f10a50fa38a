"""The one tree of errors. Whose fault it is decides the branch; the text says what to do next.

The layers above map an error by its attributes (`code`, `status`), never by its class.
"""


class FairwarningError(Exception):
    """Something went wrong; see `code`."""

    status = 500

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class Refused(FairwarningError):
    """The caller's fault: the command is not allowed. Nothing was changed."""

    status = 400


class NotFound(Refused):
    """The command names something that does not exist (or that the caller may not know of)."""

    status = 404


class Conflict(Refused):
    """The command is sound, but the present state forbids it."""

    status = 409


class Unavailable(FairwarningError):
    """Our fault, for the moment: try again later. Nothing that was refused so has taken effect.

    With one exception, which says so: `StoreUnclear`, when a database was lost as it committed.
    """

    status = 503


class InvariantViolated(FairwarningError):
    """An invariant failed: writes stop, reads go on (IS4)."""
