"""`fairwarning COMMAND ...`: the entry point."""

import signal
import sys
from importlib import import_module


def main() -> None:
    """Run the command line."""
    if sys.argv[1:2] == ["agent"]:  # part of a bare install, which has no click
        import_module("fairwarning.cli.agent").main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["up"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # end without a traceback, as by SIGTERM
    try:
        from fairwarning.cli.commands import program  # noqa: PLC0415  (a bare install has no click)
    except ModuleNotFoundError:
        sys.exit("This command needs the server: pip install 'fairwarning[server]'")
    program(prog_name="fairwarning")


if __name__ == "__main__":
    main()
