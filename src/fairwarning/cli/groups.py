"""Command groups that suggest the nearest name for one that they do not have."""

from difflib import get_close_matches

import click


class SuggestingGroup(click.Group):
    """Answers an unknown command with the most similar ones."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; say what was probably meant if there is none."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            nearest = get_close_matches(args[0], self.list_commands(ctx), 3)
            if nearest and "Did you mean" not in error.message:
                names = " or ".join(repr(name) for name in nearest)
                text = f"{error.message.rstrip('.')}. Did you mean {names}?"
                raise click.UsageError(text, ctx) from None
            raise
