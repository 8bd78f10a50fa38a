"""`fairwarning scenario ...`: run scripted timelines and check their expectations (O6)."""

import json
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from fairwarning.cli.commands import listing
from fairwarning.cli.commands.listing import Column, Listing, ListOptions
from fairwarning.cli.output import errors, follow, show
from fairwarning.cli.output.blocks import ProgressBar, StyledText
from fairwarning.cli.parameters import options
from fairwarning.cli.parameters.command_classes import SuggestingGroup
from fairwarning.cli.parameters.junit import JUNIT
from fairwarning.core.errors import NotFound, Refused
from fairwarning.core.times import spoken
from fairwarning.server import hints

if TYPE_CHECKING:  # imports a whole service, which --help does not need
    from fairwarning.testing.scenarios import Scenario, ScenarioProgress, ScenarioResult

_USAGE = 2  # exit code for wrong usage and for an invalid scenario file

_EPILOG = """\b
Examples:
  fairwarning scenario list
  fairwarning scenario run --all
  fairwarning scenario run spot-eviction scale-in
  fairwarning scenario show spot-eviction > mine.toml
  fairwarning scenario run mine.toml --junit result.xml

\b
Exit codes of run: 0 all passed, 1 one failed, 2 wrong usage or invalid file,
3 unknown scenario.
"""


@click.group("scenario", cls=SuggestingGroup, epilog=_EPILOG)
def command() -> None:
    """Run scripted event scenarios and check the outcome.

    Scenarios need no running service: each has its own fleet and a virtual clock.
    """


_SCENARIOS = Listing(
    "scenarios",
    "scenarios",
    (
        Column("scenario", itemgetter("name")),
        Column("length", lambda scenario: spoken(scenario["seconds"])),
        Column("about", itemgetter("about")),
        Column("steps", lambda scenario: str(scenario["steps"]), wide=True),
    ),
    live=False,
)


@command.command("list", epilog=show.examples("scenario list", "scenario list --json"))
@listing.list_options(_SCENARIOS)
def list_(wanted: ListOptions) -> None:
    """List the scenarios that ship with Fairwarning."""
    from fairwarning.testing.scenarios import shipped  # noqa: PLC0415  (see above)

    scenarios = [_describe(scenario) for scenario in shipped()]
    listing.show_items(_SCENARIOS, wanted, scenarios)


def _describe(scenario: "Scenario") -> dict[str, Any]:
    return {
        "name": scenario.name,
        "about": scenario.about,
        "steps": len(scenario.steps),
        "seconds": scenario.seconds,
    }


def _complete(_: click.Context, __: click.Parameter, prefix: str) -> list[CompletionItem]:
    """Complete the name of a scenario that ships, or the path of a file."""
    from fairwarning.testing.scenarios import shipped  # noqa: PLC0415  (see above)

    names = [scenario.name for scenario in shipped() if scenario.name.startswith(prefix)]
    return [CompletionItem(name) for name in names] or [CompletionItem(prefix, type="file")]


@command.command("show", epilog=show.examples("scenario show spot-eviction > mine.toml"))
@click.argument("name", shell_complete=_complete)
def show_(name: str) -> None:
    """Print the file of a scenario, for example to copy and edit it."""
    click.echo(_find(name).text, nl=False)


@command.command(epilog=_EPILOG)
@click.argument("names", nargs=-1, metavar="[NAME|PATH]...", shell_complete=_complete)
@click.option("--all", "every", is_flag=True, help="Run all scenarios that ship with Fairwarning.")
@show.as_json
@JUNIT
@options.this_host_only("a scenario has its own fleet in the process that runs it")
def run(*, names: tuple[str, ...], every: bool, as_json: bool, junit: Path | None) -> None:
    """Run scenarios, given by name or path. A scenario stops at its first failed expectation."""
    if every == bool(names):
        raise click.UsageError(
            "Give the names of scenarios, or --all. To list them, run"
            f" `{hints.program()} scenario list`."
        )
    from fairwarning.testing.scenarios import shipped  # noqa: PLC0415  (see above)

    scenarios = shipped() if every else [_find(name) for name in names]
    with errors.errors_reported(service=False):
        results = [_run(scenario, silent=as_json) for scenario in scenarios]
    passed = all(result.passed for result in results)
    if as_json:
        click.echo(json.dumps({"passed": passed, "scenarios": [_as_json(r) for r in results]}))
    if junit:
        _write(junit, results)
    raise SystemExit(0 if passed else errors.FAILED)


def _find(name: str) -> "Scenario":
    from fairwarning.testing.scenarios import find  # noqa: PLC0415  (see above)

    try:
        return find(name)
    except Refused as error:
        click.echo(f"Error: {error.message}", err=True)
        raise SystemExit(errors.NOT_FOUND if isinstance(error, NotFound) else _USAGE) from error


# --- Text output ----------------------------------------------------------------------------------


def _run(scenario: "Scenario", *, silent: bool) -> "ScenarioResult":
    """Run a scenario and print its result; on a terminal, show the clock and the current step."""
    from fairwarning.testing.scenarios import run_scenario  # noqa: PLC0415  (see above)

    with follow.display(silent=silent or not follow.is_redrawn(), progress=True) as show_blocks:

        def report(progress: "ScenarioProgress") -> None:
            text = f"{scenario.name}  {progress.clock}  {progress.step.title}"
            show_blocks([ProgressBar(progress.seconds, scenario.seconds, text)])

        result = run_scenario(scenario, report)
        show_blocks([])
    if not silent:
        show.print_blocks(StyledText(result.line, "green" if result.passed else "red"))
        show.print_blocks(*(result.difference.lines() if result.difference else ()))
    return result


# --- JSON and JUnit output ------------------------------------------------------------------------


def _as_json(result: "ScenarioResult") -> dict[str, Any]:
    value = {
        "name": result.scenario.name,
        "passed": result.passed,
        "done": result.done,
        "steps": len(result.scenario.steps),
        "seconds": result.seconds,
        "real_seconds": round(result.real_seconds, 3),
        "difference": None,
    }
    if difference := result.difference:
        value["difference"] = {
            "step": difference.step.number,
            "line": difference.step.line,
            "at_seconds": difference.step.at_seconds,
            "place": difference.place,
            "expected": difference.expected,
            "found": difference.found,
            "document": difference.document,
            "journal": difference.journal,
        }
    return value


def _write(path: Path, results: Sequence["ScenarioResult"]) -> None:
    """Write the results as a JUnit report."""
    from fairwarning.testing.junit import JUnitCase, write_report  # noqa: PLC0415  (rarely needed)

    cases = []
    for result in results:
        case = JUnitCase(result.scenario.name, result.real_seconds)
        if difference := result.difference:
            failure = f"expected {difference.expected}, found {difference.found}"
            case = case._replace(failure=failure, details="\n".join(difference.lines()))
        cases.append(case)
    write_report(path, "scenario", cases, {})
