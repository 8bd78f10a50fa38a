"""All errors. The class says whose fault it is, the text what to do next.

The layers above map an error by its attributes (`code`, `status`), never by its class.
"""


def reason_of(error: Exception) -> str:
    """Return why a file, a socket or a program could not be used, without numbers and names."""
    if isinstance(error, UnicodeError):
        return "it is not UTF-8 text"
    return getattr(error, "strerror", None) or str(error)


class FairwarningError(Exception):
    """Base of all errors; scripts compare `code`."""

    status = 500

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class Refused(FairwarningError):
    """The command is not allowed. Nothing was changed."""

    status = 400


class NotFound(Refused):
    """The command names something that does not exist (or that the caller may not know of)."""

    status = 404


class Conflict(Refused):
    """The command is valid, but the current state does not allow it."""

    status = 409


class AddressTaken(Conflict):
    """Another machine has this address; addresses are unique in a fleet (M22)."""

    def __init__(self, address: str) -> None:
        super().__init__("AddressTaken", f"another machine has address {address!r}; choose another")
        self.address = address
        self.tried: tuple[str, ...] = ()  # all addresses that the same batch gives out


def key_reused(key: str, first: str, second: str) -> Conflict:
    """The error for a key that another request has used (E9)."""
    return Conflict(
        "KeyReused",
        f"the key {key!r} belongs to another request ({first}), and cannot be used for this one "
        f"({second}); use a new key for each request",
    )


class Unavailable(FairwarningError):
    """The service cannot do this now; try again later. The command had no effect.

    The exception is `StoreUnclear`: the store failed during the commit, and may have it.
    """

    status = 503


class Bug(FairwarningError):
    """A decision could not be made, because the rules themselves are wrong. Nothing was changed.

    Only the entity that the command addressed is set aside (IB1).
    """

    def __init__(self, message: str) -> None:
        super().__init__("Bug", message)


class StoreDamaged(FairwarningError):
    """The store contradicts its own check: writes stop, reads continue (IS4)."""
