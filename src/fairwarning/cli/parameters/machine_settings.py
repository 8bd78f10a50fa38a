"""Options of `machine create` and `set create`: what a machine is."""

import click

from fairwarning.cli.parameters.parameter_types import AnyCase


def _parse_tags(
    context: click.Context, parameter: click.Parameter, words: tuple[str, ...]
) -> dict[str, str]:
    """Parse tags written as K=V."""
    tags: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{word!r} is not K=V, such as env=prod", context, parameter)
        tags[name] = value
    return tags


PRIORITY = click.option(
    "--priority",
    type=AnyCase("Regular", "Spot"),
    help="Spot machines can be evicted.  [default: Regular]",
)
EVICTION = click.option(
    "--eviction",
    type=AnyCase("Deallocate", "Delete"),
    help="What happens to a Spot machine on eviction.  [default: Deallocate]",
)
SIZE = click.option("--size", help="VM size reported to the machine, such as Standard_B1s.")
ZONE = click.option("--zone", help="Availability zone reported to the machine.")
TAGS = click.option(
    "--tag", "tags", metavar="K=V", multiple=True, callback=_parse_tags, help="Tag; repeatable."
)
SUBNET = click.option(
    "--subnet", help="Network that the machines get addresses from, such as 10.0.0.0/24."
)
GROUP = click.option("--group", help="Resource group.")
