"""The classes of commands: help in two sections, and hints at what an unknown word meant."""

import shlex
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import click


class ConnectionOption(click.Option):
    """An option that names the service of a command."""


class SectionedCommand(click.Command):
    """A command whose own options come first in its help.

    `otherwise` is said about an option that resembles none.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401  (those of click)
        otherwise: str = "",
        **settings: Any,  # noqa: ANN401  (those of click)
    ) -> None:
        super().__init__(*args, **settings)
        self._otherwise = otherwise

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; say what was probably meant by an unknown option."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if not self._otherwise or error.possibilities:
                raise
            raise click.UsageError(f"{error.message} {self._otherwise}", ctx) from None

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


class SuggestingGroup(click.Group):
    """Answers an unknown command with its new name, the most similar ones, or all.

    `renamed` has the commands that had another name before. `otherwise` is said about a word that
    resembles no command; `{}` in it is that word.
    """

    command_class = SectionedCommand

    def __init__(
        self,
        *args: Any,  # noqa: ANN401  (those of click)
        renamed: Mapping[str, str] | None = None,
        otherwise: str = "",
        **settings: Any,  # noqa: ANN401  (those of click)
    ) -> None:
        super().__init__(*args, **settings)
        self._renamed = renamed or {}
        self._otherwise = otherwise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; say what was probably meant if there is none."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if "Did you mean" in error.message:
                raise
            text = f"{error.message.rstrip('.')}. {self._hint(ctx, args[0])}"
            raise click.UsageError(text, ctx) from None

    def _hint(self, ctx: click.Context, word: str) -> str:
        if word in self._renamed:
            return f"It is now `{ctx.command_path} {self._renamed[word]}`."
        names = self.list_commands(ctx)
        if nearest := get_close_matches(word, names, 3):
            return f"Did you mean {' or '.join(repr(name) for name in nearest)}?"
        return f"{self._otherwise.format(shlex.quote(word))}The commands are {', '.join(names)}."
