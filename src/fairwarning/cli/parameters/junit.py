"""The option of `certify` and `scenario run` for a JUnit report."""

from pathlib import Path

import click


def _check_folder(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a file that cannot be written before the run, which may take minutes."""
    if path and not path.name:
        raise click.BadParameter("give the name of a file")
    if path and not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {path.parent}")
    return path


JUNIT = click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="FILE",
    callback=_check_folder,
    help="Also write a JUnit report to this file.",
)
