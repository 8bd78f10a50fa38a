"""`fairwarning completion SHELL`: print a shell completion script."""

import click

_VARIABLE = "_FAIRWARNING_COMPLETE"

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
