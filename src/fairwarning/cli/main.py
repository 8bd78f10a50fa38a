"""`fairwarning COMMAND ...`: the entry point."""

import sys
from importlib import import_module
from importlib.util import find_spec


def main() -> None:
    """Run the command line."""
    words = sys.argv[1:]
    if words[:1] == ["agent"]:  # part of a bare install, which has no click
        import_module("fairwarning.cli.agent").main(words[1:])
    elif find_spec("click") is None:
        import_module("fairwarning.cli.bare").main(words)
    else:
        import_module("fairwarning.cli.commands").program(prog_name="fairwarning")


if __name__ == "__main__":
    main()
