"""Command groups that say what they have when a command does not exist."""

from difflib import get_close_matches

import click


class SuggestingGroup(click.Group):
    """Answers an unknown command with the most similar ones, or with all."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; say what was probably meant if there is none."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if "Did you mean" in error.message:
                raise
            names = self.list_commands(ctx)
            nearest = get_close_matches(args[0], names, 3)
            hint = f"The commands are {', '.join(names)}."
            if nearest:
                hint = f"Did you mean {' or '.join(repr(name) for name in nearest)}?"
            raise click.UsageError(f"{error.message.rstrip('.')}. {hint}", ctx) from None
