"""`fairwarning NOUN ...`. A noun's file is loaded when it is typed: starting is quick."""

import sys
from importlib import import_module

_NOUNS = ("up", "agent", "exec", "machine", "clock", "fault", "az", "token", "healthcheck")
"""Each a file beside this one, with a `command`."""


def main() -> None:
    """The program."""
    if sys.argv[1:2] == ["agent"]:  # which a bare install has, so it does without click
        import_module("fairwarning.cli.agent").main(sys.argv[2:])
        return
    try:
        import click  # noqa: PLC0415  (a bare install has none)
    except ModuleNotFoundError:
        sys.exit("This needs the server: pip install 'fairwarning[server]'")

    class Nouns(click.Group):
        def list_commands(self, _: click.Context) -> list[str]:
            return list(_NOUNS)

        def get_command(self, _: click.Context, name: str) -> click.Command | None:
            if name == "agent":
                return click.Command(name, help="Inside a machine: run hooks, and approve.")
            if name not in _NOUNS:
                return None
            command: click.Command = import_module(f"fairwarning.cli.{name}").command
            return command

    program = Nouns(
        name="fairwarning",
        help="Scheduled events for any fleet.\n\n"
        "Begin with `fairwarning up --demo`; each command has a --help with examples.",
        no_args_is_help=True,
    )
    program = click.version_option(package_name="fairwarning")(program)
    program(prog_name="fairwarning")


if __name__ == "__main__":
    main()
