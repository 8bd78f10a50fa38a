"""`fairwarning COMMAND ...`: the entry point."""

import signal
import sys
from importlib import import_module

from fairwarning.cli.output import streams


def main() -> None:
    """Run the command line."""
    streams.run(_main)


def _main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["agent"]:  # part of a bare install, which has no click
        import_module("fairwarning.cli.agent").main(words[1:])
        return
    if sys.version_info < (3, 11):  # too old for everything else
        import_module("fairwarning.cli.bare").main(words)
        return
    if words[:1] == ["up"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # end without a traceback, as by SIGTERM
    try:
        program = import_module("fairwarning.cli.commands").program
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        import_module("fairwarning.cli.bare").main(words)
    else:
        program(prog_name="fairwarning")


if __name__ == "__main__":
    main()
