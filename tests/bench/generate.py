"""Generate a fleet for experiments: `python -m tests.bench.generate --machines N --data PATH|URL`.

Then `fairwarning up --data PATH|URL` serves it. A million machines take less than a minute.
"""

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fairwarning.core.errors import FairwarningError
from tests.bench import fleets
from tests.bench.generator import generate, store_of

_SCOPE_MAX = 100  # machines per scope, the limit of a placement group


def main(argv: Sequence[str] | None = None) -> int:
    """Generate a fleet; return 1 if that is not possible."""
    options = _options(argv)
    console = Console(stderr=True)
    columns = TextColumn("machines"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress, fleets.runner() as loop:
        task = progress.add_task("machines", total=options.machines)
        store = store_of(options.data)

        def report(machines: int) -> None:
            progress.advance(task, machines)

        try:
            loop.run(generate(store, options.machines, options.scope, report))
        except (FairwarningError, ValueError) as error:
            text = f"Error: {options.data}: {error}; use another folder or database"
            console.print(text, style="red", soft_wrap=True)
            return 1
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.generate", description=__doc__)
    parser.add_argument("--machines", type=int, required=True, metavar="N")
    parser.add_argument(
        "--scope",
        type=int,
        default=_SCOPE_MAX,
        metavar="N",
        help=f"machines per scope; default {_SCOPE_MAX}",
    )
    parser.add_argument(
        "--data", required=True, metavar="PATH|URL", help="a folder, or a postgresql:// database"
    )
    options = parser.parse_args(argv)
    if options.machines < 1 or not 1 <= options.scope <= _SCOPE_MAX:
        parser.error(f"--machines must be at least 1, and --scope from 1 to {_SCOPE_MAX}")
    return options


if __name__ == "__main__":
    sys.exit(main())
