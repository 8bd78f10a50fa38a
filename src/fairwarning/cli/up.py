"""`fairwarning up`: run the service in one process (O1, O2), or in several workers (X1)."""

import asyncio
import gc
import json
import logging
import shlex
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from fairwarning.cli import logs, options
from fairwarning.cli.redaction import has_password, is_connection_string
from fairwarning.core import limits
from fairwarning.core.commands import CreateSet
from fairwarning.core.errors import Refused
from fairwarning.core.record import changed
from fairwarning.metadata.listeners import PortRange, loopback_host
from fairwarning.server import hints
from fairwarning.server.descriptors import raise_file_limit
from fairwarning.server.output import Output
from fairwarning.server.ready import ReadyLine
from fairwarning.server.stopping import StopSignal
from fairwarning.server.variables import DATA, is_database
from fairwarning.server.wiring import ServerOptions, ServerProcess
from fairwarning.server.workers import WorkerOptions, this_worker
from fairwarning.server.workers import run as run_workers
from fairwarning.service.config import fleet_file
from fairwarning.service.config.fleet_file import ApplyResult, FleetFile

if TYPE_CHECKING:
    from fairwarning.console.api.integrations import ScenarioRunner

log = logging.getLogger(__name__)

_OTHER_FILES = 256
_PIPE_CHARACTERS = 32 * 1024  # that fit into an unread pipe
_SHOWN = 12  # machines listed in the text output
_GC_THRESHOLDS = 50_000, 20, 100  # the default thresholds cost a sixteenth of all CPU
_AZ = "vm", "list", "--output", "table"
_QUERY = "metadata/scheduledevents?api-version=2020-07-01"
_NO_URL = (
    "  A machine without a URL is reached from its own address, by `fairwarning exec`, or after\n"
    "  `up` with --machine-ports, --default-machine or --sockets."
)
_EMPTY = "  No machines yet; give a fleet file, or start with --demo."
_OWN_DATA = "my-fleet"  # a data folder that the demo has not used

_EPILOG = """\b
Examples:
  fairwarning up --demo
  fairwarning up fleet.toml --data /var/lib/fairwarning
  fairwarning up fleet.toml --memory --json
  fairwarning up fleet.toml --metadata 10.0.0.1:80   (identify machines by their addresses)
  fairwarning up --demo --metadata 0.0.0.0:8169 --default-machine web_0   (in a container)
  fairwarning up fleet.toml --data postgresql://db1,db2/fleet --workers 2

Press Ctrl-C to stop. The service completes accepted requests first.
"""


@click.command("up", epilog=_EPILOG)
@click.argument("fleet", metavar="[FLEET.toml]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--demo", is_flag=True, help="Create a small fleet with simulated handlers and events."
)
@click.option(
    "--sample", is_flag=True, help="Create a small fleet in which nothing happens by itself."
)
@click.option(
    "--data",
    metavar="PATH|URL",
    default=hints.DATA,
    show_default=True,
    envvar=DATA,
    help="Data folder, or the postgresql:// URL of a database that several services can share."
    " [env: FAIRWARNING_DATA]",
)
@click.option(
    "--run",
    metavar="PATH",
    default=hints.DATA,
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="With a database: folder on this host where other commands find the service.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Number of processes on the same ports; more than one needs a database.",
)
@click.option(
    "--network-folder",
    is_flag=True,
    help="Use a data folder on a network file system; only this host may use it.",
)
@click.option("--memory", is_flag=True, help="Keep the fleet in memory only.")
@click.option(
    "--metadata",
    type=options.Address(),
    default=lambda: (loopback_host(), 8169),
    show_default="127.0.0.1:8169",
    help="Address of the metadata endpoint. On loopback, each machine gets its own address or port;"
    " else a machine is identified by the address that it calls from.",
)
@click.option(
    "--machine-ports",
    type=options.Ports(),
    help="Give each machine its own port on the metadata host, such as 8200- or 8200-9199.",
)
@click.option(
    "--default-machine",
    metavar="NAME",
    default="",
    help="Answer callers that are no machine as this one, for a container's published port.",
)
@click.option(
    "--console",
    type=options.Address(),
    default=lambda: (loopback_host(), 8170),
    show_default="127.0.0.1:8170",
    help="Address of the console: web page, API, health and metrics.",
)
@click.option(
    "--tls",
    is_flag=True,
    help="Use TLS for the console, with a certificate of the service's own authority (ca.pem).",
)
@click.option(
    "--arm",
    type=options.Address(),
    default=lambda: (loopback_host(), 8171),
    show_default="127.0.0.1:8171",
    help="Address of the Azure Resource Manager API (TLS).",
)
@click.option(
    "--sockets",
    metavar="PATH",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for one Unix socket per machine.",
)
@click.option(
    "--clock",
    type=click.Choice(["real", "virtual"]),
    default="real",
    show_default=True,
    help="A virtual clock stands still until it is advanced.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line when ready; log JSON.")
@options.this_host_only("`up` starts a service on this host, and they name a running one")
def command(
    *,
    fleet: Path | None,
    demo: bool,
    sample: bool,
    data: str,
    run: Path,
    workers: int,
    network_folder: bool,
    memory: bool,
    metadata: tuple[str, int],
    machine_ports: PortRange | None,
    default_machine: str,
    console: tuple[str, int],
    tls: bool,
    arm: tuple[str, int],
    sockets: Path | None,
    clock: str,
    as_json: bool,
) -> None:
    """Run the service: the metadata endpoint, the control plane and the console."""
    logs.to_stderr(as_json=as_json)
    database = data if is_database(data) else ""
    _check_location(data, fleet)
    _check(database, workers, memory=memory, virtual=clock == "virtual")
    with options.errors_reported(service=False):
        file = _fleet(fleet, demo=demo, sample=sample)
        server_options = ServerOptions(
            data=run if database else Path(data),
            fleet=_with_tls(file) if tls else file,
            database=database,
            memory=memory,
            network_folder=network_folder,
            metadata=metadata,
            machine_ports=machine_ports,
            default_machine=default_machine,
            console=console,
            arm=arm,
            virtual=clock == "virtual",
            sockets=sockets,
            load_scenarios=_bundled_scenarios,
        )
        worker = this_worker()
        if worker is None and workers > 1:
            if not asyncio.run(run_workers(server_options, workers)):
                raise SystemExit(options.FAILED)
        else:
            _loop_runner()(_serve(server_options, worker, as_json=as_json, demo=demo))


def _bundled_scenarios() -> "ScenarioRunner":
    from fairwarning.testing.scenarios.bundled import (  # noqa: PLC0415  (loaded with the console)
        BundledScenarios,
    )

    return BundledScenarios()


def _check_location(data: str, fleet: Path | None) -> None:
    """Reject a URL in the wrong place or form, without repeating it."""
    if fleet is not None and is_connection_string(str(fleet)):
        raise click.UsageError("a connection string is no fleet file; give a database with --data")
    if not is_database(data):
        if is_connection_string(data):
            text = "--data is neither a folder nor a URL that starts with postgresql://"
            raise click.UsageError(text)
        return
    source = click.get_current_context().get_parameter_source("data")
    if source is ParameterSource.COMMANDLINE and has_password(data):
        log.warning(
            "every user of this host can read the password of --data in the process list; put the"
            " URL into %s, or the password into PGPASSWORD or PGPASSFILE",
            DATA,
        )


def _check(database: str, workers: int, *, memory: bool, virtual: bool) -> None:
    """Reject options that exclude each other."""
    if database and memory:
        raise click.UsageError("--memory cannot be used with a database; omit --memory or --data")
    if database and virtual:
        raise click.UsageError(
            "--clock virtual cannot be used with a database; use a data folder or --memory"
        )
    if workers > 1 and not database:
        raise click.UsageError("--workers needs a shared database: --data postgresql://...")


def _fleet(path: Path | None, *, demo: bool, sample: bool) -> FleetFile:
    if demo and sample:
        raise click.UsageError("--demo contains the sample fleet; omit --demo or --sample")
    if path and (demo or sample):
        raise click.UsageError("a fleet file cannot be used with --demo or --sample")
    if demo or sample:
        return fleet_file.demo() if demo else fleet_file.sample()
    if path is None:
        return FleetFile()
    try:
        return fleet_file.read(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise Refused("BadFleetFile", f"cannot read {path}: {error}") from error


def _demo(server: ServerProcess) -> AbstractAsyncContextManager[None]:
    from fairwarning.testing.demo.demo import running  # noqa: PLC0415  (only the demo needs it)

    return running(server)


def _with_tls(file: FleetFile) -> FleetFile:
    return changed(file, console=changed(file.console, tls=True))


def _loop_runner() -> Callable[[Coroutine[None, None, None]], None]:
    try:
        import uvloop  # noqa: PLC0415  (not available on every system)
    except ModuleNotFoundError:
        return asyncio.run
    return uvloop.run


async def _serve(
    base_options: ServerOptions, worker: WorkerOptions | None, *, as_json: bool, demo: bool
) -> None:
    server_options = worker.options(base_options) if worker else base_options
    fleet = server_options.fleet
    ports = (fleet.endpoint, fleet.console, fleet.control_plane)
    _raise_file_limit(sum(port.connections for port in ports))
    process = ServerProcess(server_options)
    stop = StopSignal()
    stop.leftovers.append(process.remove_files)
    if worker:
        worker.stop_with_parent(stop.request)
    output = Output()
    try:
        async with process.running() as server, AsyncExitStack() as stack:
            if worker:
                worker.report_ready()
            if worker is None or worker.first:
                if demo:
                    await stack.enter_async_context(_demo(server))
                ready = await server.announce()
                if as_json and (worker is None or worker.prints):
                    await _print_json(server, ready, output)
                elif worker is None or worker.prints:
                    await _print_text(server, ready, output, demo=demo)
            _tune_garbage_collection()
            await stop.wait()
    except asyncio.CancelledError:
        if not stop.requested:
            raise
    stop.finish()
    if not as_json:
        await output.write(f"Stopped. {_data_summary(server_options)}\n")


def _tune_garbage_collection() -> None:
    """Exclude the objects that exist now from garbage collection: they live until the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _data_summary(server_options: ServerOptions) -> str:
    if server_options.memory:
        return "No data was kept."
    if server_options.database:
        return "The data is in the database."
    return f"The data is in {server_options.data}."


def _raise_file_limit(connections: int) -> None:
    """Raise the limit of open files to what the connections need, as far as allowed."""
    needed = connections + _OTHER_FILES
    allowed = raise_file_limit(needed)
    if allowed < needed:
        log.warning(
            "open file limit is %d, but %d connections need %d; raise the hard limit",
            allowed, connections, needed,
        )  # fmt: skip


async def _print_json(server: ServerProcess, ready: ReadyLine, output: Output) -> None:
    """Print one line, in parts, because there may be a million machines."""
    text = json.dumps(ready).removesuffix("}") + ', "machines": {'
    separator = ""
    async for name, url in server.machines():
        text += f"{separator}{json.dumps(name)}: {json.dumps(url)}"
        separator = ", "
        if len(text) > _PIPE_CHARACTERS:
            await output.write(text)
            text = ""
    await output.write(text + "}}\n")


async def _print_text(
    server: ServerProcess, ready: ReadyLine, output: Output, *, demo: bool
) -> None:
    """Print the machines, and commands to try."""
    lines = [_summary(server.applied, server.options.fleet), ""]
    shown: list[tuple[str, str | None]] = []
    async for machine in server.machines():
        if len(shown) == _SHOWN:
            break
        shown.append(machine)
    width = max((len(name) for name, _ in shown), default=0)
    lines += [f"  {name:<{width}}  {url or ''}".rstrip() for name, url in shown]
    if len(shown) == _SHOWN:
        machines = hints.command_line(server.options.data, "machine list")
        lines.append(f"  To list all machines, run `{machines}`.")
    lines += [_NO_URL] if not all(url for _, url in shown) else []
    lines += _demo_lines() if demo else []
    lines += _hints(server, *_first(shown)) if shown else [_EMPTY]
    lines += [
        "",
        f"Manage the fleet with the Azure CLI ({ready['arm']}):",
        f"  {hints.command_line(server.options.data, 'az', *_AZ)}",
        "Open the console in a browser:",
        f"  {ready['page']}",
        f"Health and metrics: {ready['console']}/healthz, {ready['console']}/metrics",
        "Ctrl-C stops it.",  # scripts wait for this line
    ]
    await output.write("\n".join([*lines, ""]))


def _summary(applied: ApplyResult, fleet: FleetFile) -> str:
    if not fleet.commands:
        return "Fairwarning is up."
    if applied.kept:
        count = len(fleet.commands)
        return (
            f"Fairwarning is up. Created {applied.created} of the {count} scopes and scale sets in"
            f" the fleet file; {applied.kept} already existed."
        )
    machines = scopes = 0
    for command in fleet.commands:
        if isinstance(command, CreateSet):
            machines += command.capacity
            scopes += ceil(command.capacity / limits.PLACEMENT_GROUP_MACHINES)
        else:
            machines += len(command.machines)
            scopes += 1
    return (
        f"Fairwarning is up. Created {_plural(machines, 'machine')} in {_plural(scopes, 'scope')}."
    )


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _demo_lines() -> list[str]:
    return [
        "",
        "This is a demo: simulated handlers poll on every machine but FrontEnd_IN_0. Those of api",
        "and batch_0 approve after 5 seconds. Every few minutes api gets an event. For an empty",
        "fleet without simulated handlers, stop the demo and run:",
        f"  {hints.command_line(Path(_OWN_DATA), 'up')}",
    ]


def _first(machines: list[tuple[str, str | None]]) -> tuple[str, str | None]:
    """Return the first machine that has a URL, else the first."""
    return next((machine for machine in machines if machine[1]), machines[0])


def _hints(server: ServerProcess, name: str, url: str | None) -> list[str]:
    data = server.options.data
    curl = ["curl", "-H", "Metadata:true"]
    inside = [
        f"Run a program inside {name}, with the endpoint at Azure's address:",
        f"  {hints.command_line(data, 'exec', name, '--', *curl)} \\",
        f'    "http://169.254.169.254/{_QUERY}"',
    ]
    sockets = server.options.sockets
    if sockets and (path := sockets / f"{name}.sock").is_socket():
        curl += ["--unix-socket", str(path)]
        url = "http://localhost"
    poll = [
        f"Poll for events as {name}:",
        f"  {shlex.join(curl)} \\",
        f'    "{url}/{_QUERY}"',
    ]
    return [
        "",
        *(poll if url else ()),
        *(inside if server.programs else ()),
        "After the first poll, schedule an event:",
        f"  {hints.command_line(data, 'machine restart', name)}",
    ]
