"""The nouns of the program. A noun's file is loaded when it is typed: starting is quick."""

from importlib import import_module

import click
from click.shell_completion import CompletionItem

NOUNS = {
    "A fleet": {
        "up": "Run the whole service.",
        "machine": "See machines, make them, let something happen to them.",
        "set": "Scale sets, with termination notice.",
        "event": "What is announced: list, approve, cancel, explain, watch.",
        "operation": "What somebody asked for, and how far it is.",
        "rollout": "Work through hosts, an update domain at a time.",
        "clock": "See the fleet's time, and move it where it is virtual.",
        "webhook": "Send every change of an event to a URL.",
    },
    "Handlers": {
        "agent": "Inside a machine: run hooks, and approve.",
        "exec": "Run a program as if it were inside a machine.",
        "certify": "Run a handler through the known traps.",
        "scenario": "Play what may happen to machines, to a verdict.",
        "fault": "Let the metadata endpoint misbehave.",
    },
    "Around it": {
        "az": "Run the Azure CLI against the service.",
        "token": "Make a token for somebody else.",
        "healthcheck": "Say whether the service is up.",
        "completion": "Print what lets Tab complete words.",
    },
}
"""Each a file beside this one, with a `command`; said here, so that --help need not load them."""

ABOUT = {noun: about for nouns in NOUNS.values() for noun, about in nouns.items()}


class LazyCommands(click.Group):
    """All of them; neither --help nor Tab loads any."""

    def list_commands(self, _: click.Context) -> list[str]:
        """In the order of --help."""
        return list(ABOUT)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        """The command, loaded now."""
        if name == "agent":  # a program of its own, see `main`
            return click.Command(name, help=ABOUT[name])
        if name not in ABOUT:
            return None
        command: click.Command = import_module(f"fairwarning.cli.{name}").command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The nouns that begin so."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(noun) for noun in ABOUT if noun.startswith(incomplete)]

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """By what they are for."""
        widest = max(map(len, ABOUT))
        for heading, nouns in NOUNS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{noun:<{widest}}", about) for noun, about in nouns.items()])


program = click.version_option(package_name="fairwarning")(
    LazyCommands(
        name="fairwarning",
        help="Scheduled events for any fleet.\n\n"
        "Begin with `fairwarning up --demo`; each command has a --help with examples.",
        no_args_is_help=True,
    )
)
