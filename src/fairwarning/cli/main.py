"""`fairwarning NOUN ...`: the program."""

import sys
from importlib import import_module


def main() -> None:
    """Run what was typed."""
    if sys.argv[1:2] == ["agent"]:  # which a bare install has, so it does without click
        import_module("fairwarning.cli.agent").main(sys.argv[2:])
        return
    try:
        from fairwarning.cli.nouns import program  # noqa: PLC0415  (a bare install has no click)
    except ModuleNotFoundError:
        sys.exit("This needs the server: pip install 'fairwarning[server]'")
    program(prog_name="fairwarning")


if __name__ == "__main__":
    main()
