"""`fairwarning scenario ...`: timelines with expectations, played to a verdict (O6)."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairwarning.cli import options
from fairwarning.core.errors import NotFound, Refused

if TYPE_CHECKING:  # it loads a whole service, which --help does without
    from fairwarning.testing.scenarios import Scenario, ScenarioProgress, ScenarioResult

_WRONG = 2  # exit code: wrong usage, and a file that is no scenario
_FASTEST = 1_000_000  # as `play` has it
_BAR_CHARACTERS = 24
_SHOWN = tuple["Callable[[ScenarioProgress], None]", "Callable[[ScenarioResult], None]"]
"""What is called as a scenario goes on, and when it is over."""

_EPILOG = """\b
Examples:
  fairwarning scenario list
  fairwarning scenario run --all
  fairwarning scenario run spot-eviction --real
  fairwarning scenario run host-update --real --rate 60    (a minute a second)
  fairwarning scenario show spot-eviction > mine.toml
  fairwarning scenario run mine.toml --junit result.xml

\b
Exit codes of run: 0 all passed, 1 one failed, 2 wrong usage or no valid file, 3 no such scenario.
"""


@click.group("scenario", epilog=_EPILOG)
def command() -> None:
    """Play what may happen to machines, and see that it happens as it should.

    No service has to be up: each scenario has a fleet of its own, and virtual time.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="An array, for scripts.")
def list_(*, as_json: bool) -> None:
    """The scenarios that ship with Fairwarning."""
    from fairwarning.testing.scenarios import shipped  # noqa: PLC0415  (see above)

    known = shipped()
    if as_json:
        click.echo(json.dumps([_described(one) for one in known]))
        return
    widest = max(len(one.name) for one in known)
    for one in known:
        click.echo(f"{one.name:<{widest}}  {one.length:>8}  {one.about}")


def _described(scenario: "Scenario") -> dict[str, Any]:
    return {
        "name": scenario.name,
        "about": scenario.about,
        "steps": len(scenario.steps),
        "seconds": scenario.seconds,
    }


@command.command()
@click.argument("name")
def show(name: str) -> None:
    """Print the file of a scenario, to copy and change."""
    click.echo(_found(name).text, nl=False)


@command.command(epilog=_EPILOG)
@click.argument("names", nargs=-1, metavar="[NAME|PATH]...")
@click.option("--all", "every", is_flag=True, help="All that ship with Fairwarning.")
@click.option("--real", is_flag=True, help="In real time, not as fast as may be.")
@click.option(
    "--rate",
    type=click.FloatRange(0, _FASTEST, min_open=True),
    help="With --real: so many times as fast.",
)
@click.option("--json", "as_json", is_flag=True, help="An object, for scripts.")
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write a JUnit report to this file as well.",
)
def run(
    *,
    names: tuple[str, ...],
    every: bool,
    real: bool,
    rate: float | None,
    as_json: bool,
    junit: Path | None,
) -> None:
    """Play scenarios, by name or by path; each stops at the first difference."""
    if every == bool(names):
        raise click.UsageError(
            "Name scenarios, or say --all. `fairwarning scenario list` has them."
        )
    if rate is not None and not real:
        raise click.UsageError("--rate is for --real; without it, time passes as fast as may be.")
    from fairwarning.testing.scenarios import play, shipped  # noqa: PLC0415  (see above)

    chosen = shipped() if every else [_found(name) for name in names]
    verdicts = []
    with (
        _quiet() if as_json else _shown() as (report, tell),
        options.errors_reported(service=False),
    ):
        for one in chosen:
            verdicts.append(play(one, report, real=real, rate=rate or 1.0))
            tell(verdicts[-1])
    passed = all(one.passed for one in verdicts)
    if as_json:
        told = {"passed": passed, "scenarios": [_verdict(one) for one in verdicts]}
        click.echo(json.dumps(told))
    if junit:
        _write(junit, verdicts)
    raise SystemExit(0 if passed else options.FAILED)


def _found(name: str) -> "Scenario":
    from fairwarning.testing.scenarios import find  # noqa: PLC0415  (see above)

    try:
        return find(name)
    except Refused as error:
        click.echo(f"Error: {error.message}", err=True)
        raise SystemExit(options.NOT_FOUND if isinstance(error, NotFound) else _WRONG) from error


# --- Showing it -----------------------------------------------------------------------------------


@contextmanager
def _quiet() -> Iterator[_SHOWN]:
    yield lambda _: None, lambda _: None


@contextmanager
def _shown() -> Iterator[_SHOWN]:
    """A bar with the virtual clock and the present step; only verdicts if nobody looks on."""
    from rich.console import Console  # noqa: PLC0415  (takes its time)
    from rich.progress import BarColumn, TextColumn  # noqa: PLC0415  (so does this)
    from rich.progress import Progress as Bar  # noqa: PLC0415  (as well)
    from rich.table import Column  # noqa: PLC0415  (as well)
    from rich.text import Text  # noqa: PLC0415  (as well)

    console = Console(highlight=False, soft_wrap=True)
    columns = (
        TextColumn("{task.description}", style="bold", markup=False),
        BarColumn(_BAR_CHARACTERS),
        TextColumn(
            "{task.fields[clock]:>9}  {task.fields[step]}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis"),
        ),
    )
    disable = not console.is_terminal
    with Bar(*columns, console=console, transient=True, auto_refresh=False, disable=disable) as bar:
        task = bar.add_task("", clock="", step="")

        def report(progress: "ScenarioProgress") -> None:
            scenario = progress.scenario
            bar.update(
                task,
                description=scenario.name,
                total=max(scenario.seconds, 1),
                completed=progress.seconds,
                clock=progress.clock,
                step=progress.step.title,
                refresh=True,
            )

        def tell(verdict: "ScenarioResult") -> None:
            console.print(Text(verdict.line, "green" if verdict.passed else "red"))
            for line in verdict.difference.lines() if verdict.difference else ():
                console.print(line, markup=False)

        yield report, tell


# --- For other programs ---------------------------------------------------------------------------


def _verdict(verdict: "ScenarioResult") -> dict[str, Any]:
    told = {
        "name": verdict.scenario.name,
        "passed": verdict.passed,
        "done": verdict.done,
        "steps": len(verdict.scenario.steps),
        "seconds": verdict.seconds,
        "real_seconds": round(verdict.real_seconds, 3),
        "difference": None,
    }
    if found := verdict.difference:
        told["difference"] = {
            "step": found.step.number,
            "line": found.step.line,
            "at_seconds": found.step.at_seconds,
            "place": found.place,
            "expected": found.expected,
            "found": found.found,
            "document": found.document,
            "journal": found.journal,
        }
    return told


def _write(path: Path, verdicts: Sequence["ScenarioResult"]) -> None:
    """The verdicts as JUnit has them."""
    from xml.etree import ElementTree as ET  # noqa: PLC0415  (few ask for it)

    suite = ET.Element(
        "testsuite",
        name="fairwarning scenarios",
        tests=str(len(verdicts)),
        failures=str(sum(not one.passed for one in verdicts)),
        errors="0",
        time=f"{sum(one.real_seconds for one in verdicts):.3f}",
    )
    for one in verdicts:
        case = ET.SubElement(
            suite,
            "testcase",
            classname="scenario",
            name=one.scenario.name,
            time=f"{one.real_seconds:.3f}",
        )
        if one.difference:
            told = f"expected {one.difference.expected}, found {one.difference.found}"
            failure = ET.SubElement(case, "failure", message=told)
            failure.text = "\n".join(one.difference.lines())
    try:
        ET.ElementTree(suite).write(path, "utf-8", xml_declaration=True)
    except OSError as error:
        raise click.FileError(str(path), error.strerror) from error
