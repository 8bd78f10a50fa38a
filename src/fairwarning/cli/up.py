"""`fairwarning up`: the whole service in one process (O1, O2), or in several equal ones (X1)."""

import asyncio
import gc
import json
import logging
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairwarning.cli import logs, options
from fairwarning.core.errors import Refused
from fairwarning.server.database import is_database
from fairwarning.server.ready import write_ready
from fairwarning.server.wiring import ServerOptions, ServerProcess
from fairwarning.server.workers import WorkerOptions, this_worker
from fairwarning.server.workers import run as run_workers
from fairwarning.service.config import fleet_file
from fairwarning.service.config.fleet_file import FleetFile

if TYPE_CHECKING:
    from fairwarning.console.api.integrations import ScenarioRunner

log = logging.getLogger(__name__)

_OTHER_FILES = 256
_PIPE = 32 * 1024  # characters that a pipe takes without being read
_SHOWN = 12  # machines listed for people
_GARBAGE = 50_000, 20, 100  # thresholds; the usual ones cost a sixteenth of all CPU
_EMPTY = "  No machines yet: name a fleet file, or begin with --demo."

_EPILOG = """\b
Examples:
  fairwarning up --demo
  fairwarning up fleet.toml --data /var/lib/fairwarning
  fairwarning up fleet.toml --memory --json
  fairwarning up fleet.toml --metadata 10.0.0.1:80   (guests are told apart by their addresses)
  fairwarning up fleet.toml --data postgresql://db1,db2/fleet --workers 2

Stop it with Ctrl-C; whatever was accepted is finished and kept.
"""


@click.command("up", epilog=_EPILOG)
@click.argument("fleet", metavar="[FLEET.toml]", required=False, type=click.Path(path_type=Path))
@click.option("--demo", is_flag=True, help="Begin with a small fleet that has one of everything.")
@click.option(
    "--data",
    metavar="PATH|URL",
    default=options.DATA,
    show_default=True,
    envvar="FAIRWARNING_DATA",
    help="A folder to keep the fleet in, or the postgresql:// URL of a database that any number of"
    " services may share. [env: FAIRWARNING_DATA]",
)
@click.option(
    "--run",
    metavar="PATH",
    default=options.DATA,
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="With a database: the folder of this host, where other commands find the service.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Processes on the same ports; more than one needs a database.",
)
@click.option("--memory", is_flag=True, help="Keep nothing.")
@click.option(
    "--metadata",
    type=options.Address(),
    default="127.0.0.1:8169",
    show_default=True,
    help="Where machines ask. On a loopback host each has an address of its own.",
)
@click.option(
    "--console",
    type=options.Address(),
    default="127.0.0.1:8170",
    show_default=True,
    help="Where people and their tools ask: health, metrics, and what Azure has no API for.",
)
@click.option(
    "--arm",
    type=options.Address(),
    default="127.0.0.1:8171",
    show_default=True,
    help="Where Azure's tools ask (Azure Resource Manager's API, over TLS).",
)
@click.option(
    "--sockets",
    metavar="PATH",
    type=click.Path(path_type=Path, file_okay=False),
    help="A folder for a Unix socket a machine.",
)
@click.option(
    "--clock",
    type=click.Choice(["real", "virtual"]),
    default="real",
    show_default=True,
    help="Virtual time stands still until it is advanced.",
)
@click.option("--json", "as_json", is_flag=True, help="One line when ready; logs as JSON.")
def command(
    *,
    fleet: Path | None,
    demo: bool,
    data: str,
    run: Path,
    workers: int,
    memory: bool,
    metadata: tuple[str, int],
    console: tuple[str, int],
    arm: tuple[str, int],
    sockets: Path | None,
    clock: str,
    as_json: bool,
) -> None:
    """Run a fleet: its metadata endpoint, its control plane, and what happens to its machines."""
    logs.to_stderr(as_json=as_json)
    database = data if is_database(data) else ""
    _check(database, workers, memory=memory, virtual=clock == "virtual")
    with options.errors_reported(service=False):
        chosen = ServerOptions(
            data=run if database else Path(data),
            fleet=_fleet(fleet, demo=demo),
            database=database,
            memory=memory,
            metadata=metadata,
            console=console,
            arm=arm,
            virtual=clock == "virtual",
            sockets=sockets,
            load_scenarios=_bundled_scenarios,
        )
        worker = this_worker()
        if worker is None and workers > 1:
            if not asyncio.run(run_workers(chosen, workers)):
                raise SystemExit(options.FAILED)
        else:
            _loop_runner()(_serve(chosen, worker, as_json=as_json))


def _bundled_scenarios() -> "ScenarioRunner":
    from fairwarning.testing.scenarios.bundled import (  # noqa: PLC0415  (loaded with the console)
        BundledScenarios,
    )

    return BundledScenarios()


def _check(database: str, workers: int, *, memory: bool, virtual: bool) -> None:
    """What does not go together."""
    if database and memory:
        raise click.UsageError("a database keeps everything; leave --memory or --data out")
    if database and virtual:
        raise click.UsageError("virtual time is for one process; use a folder, or --memory")
    if workers > 1 and not database:
        raise click.UsageError("--workers needs a database they share: --data postgresql://...")


def _fleet(path: Path | None, *, demo: bool) -> FleetFile:
    if demo and path:
        raise click.UsageError("name a fleet file or take --demo, not both")
    if demo:
        return fleet_file.demo()
    if path is None:
        return FleetFile()
    try:
        return fleet_file.read(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise Refused("BadFleetFile", f"cannot read {path}: {error}") from error


def _loop_runner() -> Callable[[Coroutine[None, None, None]], None]:
    try:
        import uvloop  # noqa: PLC0415  (not on every system)
    except ModuleNotFoundError:
        return asyncio.run
    return uvloop.run


async def _serve(given: ServerOptions, worker: WorkerOptions | None, *, as_json: bool) -> None:
    chosen = worker.options(given) if worker else given
    _allow_connections(chosen.fleet.endpoint.connections)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, stopped.set)
    if worker:
        worker.at_the_end(stopped.set)
    async with ServerProcess(chosen).running() as local:
        if worker:
            worker.say_ready()
        if worker is None or worker.tells:
            write_ready(chosen.data, local.ready())
            await (_tell_scripts(local) if as_json else _tell_people(local))
        # What is there now stays: no use in looking through it again and again for garbage.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GARBAGE)
        await stopped.wait()
    if not as_json:
        kept = "The database" if chosen.database else chosen.data
        click.echo("Stopped. " + ("Nothing is kept." if chosen.memory else f"{kept} is kept."))


def _allow_connections(connections: int) -> None:
    """As many open files as connections need, as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        if allowed < wanted:
            log.warning("only %d of %d connections: raise the limit of open files", allowed, wanted)


async def _tell_scripts(local: ServerProcess) -> None:
    """One line, written as machines are read: there may be a million."""
    text = json.dumps(local.ready()).removesuffix("}") + ', "machines": {'
    separator = ""
    parts = 0
    async for name, url in local.machines():
        text += f"{separator}{json.dumps(name)}: {json.dumps(url)}"
        separator = ", "
        if len(text) > _PIPE:
            # In a thread: whoever starts us may ask before it reads, and must be answered.
            await asyncio.to_thread(click.echo, text, nl=False)
            parts, text = parts + 1, ""
    if parts:
        await asyncio.to_thread(click.echo, text + "}}")
    else:
        click.echo(text + "}}")


async def _tell_people(local: ServerProcess) -> None:
    """What is there, and what to try."""
    applied, ready = local.applied, local.ready()
    lines = [
        f"Fairwarning is up: {applied.created} groups of machines created, {applied.kept} kept.",
        "",
    ]
    shown: list[tuple[str, str]] = []
    async for machine in local.machines():
        if len(shown) == _SHOWN:
            break
        shown.append(machine)
    width = max((len(name) for name, _ in shown), default=0)
    lines += [f"  {name:<{width}}  {url}" for name, url in shown]
    if len(shown) == _SHOWN:
        lines.append("  and perhaps more; `fairwarning machine list` shows all")
    lines += _hints(*shown[0], programs=local.programs is not None) if shown else [_EMPTY]
    lines += [
        "",
        f"Azure's own tools manage it ({ready['arm']}):",
        f"  {_program()} az vm list --output table",
        "Watch it, and let things happen to it, in a browser:",
        f"  {ready['page']}",
        f"Health and metrics: {ready['console']}/healthz, {ready['console']}/metrics",
        "Ctrl-C stops it.",
    ]
    click.echo("\n".join(lines))


def _hints(name: str, url: str, *, programs: bool) -> list[str]:
    query = "metadata/scheduledevents?api-version=2020-07-01"
    program = _program()
    inside = [
        f"Run a program inside {name}, where the endpoint is where Azure has it:",
        f"  {program} exec {name} -- curl -H Metadata:true \\",
        f'    "http://169.254.169.254/{query}"',
    ]
    return [
        "",
        f"Ask as {name} does:",
        "  curl -H Metadata:true \\",
        f'    "{url}/{query}"',
        *(inside if programs else ()),
        "Let something happen to it, once it has asked:",
        f"  {program} machine restart {name}",
    ]


def _program() -> str:
    """What to type to get this program."""
    return "fairwarning" if shutil.which("fairwarning") else os.path.relpath(sys.argv[0])
