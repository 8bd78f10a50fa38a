"""`fairwarning` with a bug: `python -m tests.cli.buggy_program`. Nobody can restart `vm`."""

from fairwarning.cli.main import main
from fairwarning.core import engine
from fairwarning.core.commands import Restart
from fairwarning.core.decision import Decision

_decide = engine.decide


def _buggy(*arguments: object) -> Decision:
    command = arguments[1]
    if isinstance(command, Restart) and command.scope == "vm":
        raise ZeroDivisionError("division by \x1b zero")
    return _decide(*arguments)  # type: ignore[arg-type]


if __name__ == "__main__":
    engine.decide = _buggy  # type: ignore[assignment]
    main()
