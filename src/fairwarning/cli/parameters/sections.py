"""Help in two sections: the options of a command, then those that name its service."""

import click


class ConnectionOption(click.Option):
    """An option that names the service of a command."""


class SectionedCommand(click.Command):
    """A command whose own options come first in its help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in two sections."""
        own: list[tuple[str, str]] = []
        connection: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                (connection if isinstance(param, ConnectionOption) else own).append(record)
        for heading, records in (("Options", own), ("Connection options", connection)):
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
