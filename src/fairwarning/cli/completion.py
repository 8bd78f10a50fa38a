"""`fairwarning completion SHELL`: what Tab completes, and the names that only the service knows."""

from collections.abc import Callable
from pathlib import Path

import click

from fairwarning.cli import client, options
from fairwarning.core.errors import FairwarningError

_VARIABLE = "_FAIRWARNING_COMPLETE"
_SECONDS = 1.0  # nobody waits longer for a Tab
_MOST = 1000

Complete = Callable[[click.Context, click.Parameter, str], list[str]]

_EPILOG = """\b
Examples:
  eval "$(fairwarning completion bash)"        (in ~/.bashrc)
  eval "$(fairwarning completion zsh)"         (in ~/.zshrc, after compinit)
  fairwarning completion fish > ~/.config/fish/completions/fairwarning.fish
"""


@click.command("completion", epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print what lets Tab complete words. Names of machines too, while the service is up."""
    from click.shell_completion import get_completion_class  # noqa: PLC0415  (only here)

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(command, {}, "fairwarning", _VARIABLE).source())


def _names(what: str, key: str) -> Complete:
    def complete(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
        folder = Path(context.params.get("data") or options.DATA)
        try:
            page = client.ask(folder, "GET", f"/api/{what}?limit={_MOST}", seconds=_SECONDS)
        except FairwarningError:
            return []  # it is not up: nothing to offer, and nothing to say in the middle of a line
        found = [str(one[key]) for one in page[what]]
        return [name for name in found if name.lower().startswith(begun.lower())]

    return complete


machines = _names("machines", "name")
scopes = _names("scopes", "id")
sets = _names("sets", "name")
events = _names("events", "id")
rollouts = _names("rollouts", "id")
webhooks = _names("webhooks", "name")
