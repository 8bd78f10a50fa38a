"""`fairwarning completion SHELL`: shell completion, including names known to the service."""

from collections.abc import Callable

import click

from fairwarning.cli import client
from fairwarning.cli.target import ServiceOptions, choose
from fairwarning.core.errors import FairwarningError

_VARIABLE = "_FAIRWARNING_COMPLETE"
_TIMEOUT_SECONDS = 1.0  # completion must not make the user wait
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
    """Print a shell completion script.

    While the service is up, it also completes names such as those of machines.
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415  (only here)

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(command, {}, "fairwarning", _VARIABLE).source())


def _names(collection: str, key: str) -> Complete:
    def complete(context: click.Context, _: click.Parameter, prefix: str) -> list[str]:
        values = {name: context.params.get(name) for name in ServiceOptions._fields}
        path = f"/api/{collection}?limit={_MOST}"
        try:
            service = choose(ServiceOptions(**values))
            page = client.ask(service, "GET", path, seconds=_TIMEOUT_SECONDS)
        except (FairwarningError, click.ClickException):
            return []  # the service is down; an error message would garble the command line
        names = [str(item[key]) for item in page[collection]]
        return [name for name in names if name.lower().startswith(prefix.lower())]

    return complete


machines = _names("machines", "name")
scopes = _names("scopes", "id")
sets = _names("sets", "name")
events = _names("events", "id")
rollouts = _names("rollouts", "id")
webhooks = _names("webhooks", "name")
