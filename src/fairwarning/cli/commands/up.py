"""`fairwarning up`: run the service in one process (O1, O2), or in several workers (X1)."""

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import click
from click.core import ParameterSource

from fairwarning.cli.connection.redaction import has_password, is_connection_string
from fairwarning.cli.output import errors, up_text
from fairwarning.cli.parameters import addresses, options
from fairwarning.cli.parameters.parameter_types import Integer
from fairwarning.core.errors import Refused, reason_of
from fairwarning.core.record import changed
from fairwarning.metadata.listeners import PortRange, loopback_host
from fairwarning.server import hints
from fairwarning.server.descriptors import raise_file_limit
from fairwarning.server.options import ServerOptions
from fairwarning.server.output import Output
from fairwarning.server.progress import ProgressReceiver, ProgressReporter, ServiceManager
from fairwarning.server.stopping import StopSignal
from fairwarning.server.variables import DATA, is_database
from fairwarning.server.wiring import ServerProcess
from fairwarning.server.worker import WorkerOptions, this_worker
from fairwarning.server.workers import run as run_workers
from fairwarning.service.config import fleet_file
from fairwarning.service.config.fleet_file import FleetFile

log = logging.getLogger(__name__)

_OTHER_FILES = 256
_GC_THRESHOLDS = 50_000, 20, 100  # the default thresholds cost a sixteenth of all CPU

_EPILOG = """\b
Examples:
  fairwarning up --demo
  fairwarning up fleet.toml --data my-fleet
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
    type=Integer(1, 256),
    default=1,
    show_default=True,
    help="Number of processes on the same ports; more than one needs a database.",
)
@click.option(
    "--allow-network-folder",
    "network_folder",
    is_flag=True,
    help="Allow a data folder on a network file system; only this host may use it.",
)
@click.option("--memory", is_flag=True, help="Keep the fleet in memory only.")
@click.option(
    "--metadata",
    type=addresses.ADDRESS,
    default=lambda: (loopback_host(), 8169),
    show_default="127.0.0.1:8169",
    help="Address of the metadata endpoint. On loopback, each machine gets its own address or port;"
    " else a machine is identified by the address that it calls from.",
)
@click.option(
    "--machine-ports",
    type=addresses.PORTS,
    help="Give each machine its own port on the metadata host, such as 8200- or 8200-9199.",
)
@click.option(
    "--default-machine",
    metavar="NAME",
    default="",
    help="Answer requests from unknown addresses as this machine, for a container's published "
    "port.",
)
@click.option(
    "--console",
    type=addresses.ADDRESS,
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
    type=addresses.ADDRESS,
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
    tls: bool,
    clock: str,
    as_json: bool,
    network_folder: bool,
    memory: bool,
    metadata: tuple[str, int],
    machine_ports: PortRange | None,
    default_machine: str,
    console: tuple[str, int],
    arm: tuple[str, int],
    sockets: Path | None,
) -> None:
    """Run the service: the metadata endpoint, the control plane and the console."""
    up_text.log_to_stderr(as_json=as_json)
    database = data if is_database(data) else ""
    _check_location(data, fleet)
    virtual = clock == "virtual"
    _check(database, workers, memory=memory, virtual=virtual)
    addresses = {"metadata": metadata, "console": console, "arm": arm}
    with errors.errors_reported(service=False), _option_named(addresses):
        file = _fleet(fleet, demo=demo, sample=sample)
        if tls:
            file = changed(file, console=changed(file.console, tls=True))
        server_options = ServerOptions(
            data=run if database else Path(data),
            fleet=file,
            database=database,
            virtual=virtual,
            memory=memory,
            network_folder=network_folder,
            metadata=metadata,
            machine_ports=machine_ports,
            default_machine=default_machine,
            console=console,
            arm=arm,
            sockets=sockets,
        )
        worker = this_worker()
        if worker is None and workers > 1:
            if not asyncio.run(run_workers(server_options, workers)):
                raise SystemExit(errors.FAILED)
        else:
            _loop_runner()(_serve(server_options, worker, as_json=as_json, demo=demo))


@contextmanager
def _option_named(addresses: Mapping[str, tuple[str, int]]) -> Iterator[None]:
    """Add to the error about a port that cannot be used which option chooses another."""
    try:
        yield
    except Refused as error:
        for name, (host, port) in addresses.items():
            if error.code == "CannotListen" and f"{host}:{port}:" in error.message:
                other = f"choose another address with --{name}; port 0 is any free one"
                raise Refused(error.code, f"{error.message}; {other}") from error
        raise


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
        raise Refused("BadFleetFile", f"cannot read {path}: {reason_of(error)}") from error


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
    supervisor: ProgressReceiver = worker or ServiceManager()
    reporter = ProgressReporter(supervisor, process.fleet, lambda: process.start_step, stop.give_up)
    reporting = asyncio.create_task(reporter.run())
    output = Output()
    try:
        async with process.running() as server, AsyncExitStack() as stack:
            stack.callback(reporting.cancel)  # before the store is closed
            ready = None
            if worker is None or worker.first:
                if demo:
                    from fairwarning.testing.demo import running  # noqa: PLC0415  (rarely needed)

                    await stack.enter_async_context(running(server))
                ready = await server.announce()
            supervisor.report_ready()
            if ready and (worker is None or worker.prints):
                if as_json:
                    await up_text.print_json(server, ready, output)
                else:
                    await up_text.print_text(server, ready, output, demo=demo)
            _tune_garbage_collection()
            await stop.wait()
            supervisor.report_stop()
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
