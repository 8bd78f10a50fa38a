"""`fairwarning COMMAND ...`: the entry point."""

import sys
from importlib import import_module


def main() -> None:
    """Run the command line."""
    words = sys.argv[1:]
    if words[:1] == ["agent"]:  # part of a bare install, which has no click
        import_module("fairwarning.cli.agent").main(words[1:])
        return
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
