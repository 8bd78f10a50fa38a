"""The top-level commands. A command's module is imported only when the command is run."""

from importlib import import_module

import click
from click.shell_completion import CompletionItem

from fairwarning.cli.command_list import COMMANDS, SUMMARIES
from fairwarning.cli.connection.redaction import without_secrets
from fairwarning.cli.parameters.command_classes import SuggestingGroup


class LazyCommands(SuggestingGroup):
    """Imports a command's module when it runs, never for --help or shell completion."""

    def list_commands(self, _: click.Context) -> list[str]:
        """Return the command names in the order of --help."""
        return list(SUMMARIES)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        """Import and return a command."""
        if name == "agent":  # handled in `main`, without click
            return click.Command(name, help=SUMMARIES[name])
        if name not in SUMMARIES:
            return None
        command: click.Command = import_module(f"fairwarning.cli.commands.{name}").command
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; a wrong use of it is reported without secrets."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            vars(error)["message"] = without_secrets(error.message)  # click prints the attribute
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the command names that start with `incomplete`."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name) for name in SUMMARIES if name.startswith(incomplete)]

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in groups."""
        widest = max(map(len, SUMMARIES))
        for heading, group in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(f"{name:<{widest}}", summary) for name, summary in group.items()]
                )


program = click.version_option(package_name="fairwarning")(
    LazyCommands(
        name="fairwarning",
        help="Scheduled Events for any fleet.\n\n"
        "Start with `fairwarning up --demo`. Run `fairwarning COMMAND --help` for examples.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
)
