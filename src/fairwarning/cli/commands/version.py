"""`fairwarning version`: print the version of this program; `status` has that of the service."""

import click

import fairwarning


@click.command("version", epilog="\b\nExamples:\n  fairwarning version")
def command() -> None:
    """Print the version of this program."""
    click.echo(f"fairwarning, version {fairwarning.__version__}")
