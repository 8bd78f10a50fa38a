"""`fairwarning exec`: run a program as if it were inside a machine (O3)."""

from contextlib import suppress
from dataclasses import replace

import click

from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output import errors, show
from fairwarning.cli.parameters import completion, options
from fairwarning.cli.parameters import isolation as isolation_options
from fairwarning.cli.parameters.addresses import is_port
from fairwarning.cli.parameters.command_classes import SectionedCommand
from fairwarning.cli.parameters.parameter_types import Number, Parsed
from fairwarning.core.errors import FairwarningError, NotFound, Unavailable, reason_of
from fairwarning.machines.process import foreground
from fairwarning.machines.process.isolation import choose
from fairwarning.machines.process.machine_program import GRACE_SECONDS, MachineProgram
from fairwarning.machines.process.namespace import ENDPOINT
from fairwarning.machines.process.relay import HostPort

_MOST_PORTS = 100
_EPILOG = """\b
Examples:
  fairwarning exec web_0 -- ./my-handler --verbose
  fairwarning exec web_0 -- bash
  fairwarning exec --forward 127.0.0.1:8170 web_0 -- curl http://127.0.0.1:8170/healthz
  fairwarning exec web_0 -- curl -H Metadata:true \\
    "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"

Exits with the exit code of the program; 1 if it could not be started, 2 for wrong usage, 3 if the
machine does not exist, 4 if the service refuses. On Linux and macOS.
"""


def _port_of_host(text: str) -> HostPort:
    """Read a port as [HOST:]PORT; without a host, it is one of 127.0.0.1."""
    host, _, port = text.rpartition(":")
    if not is_port(port) or not int(port):
        raise ValueError(f"{text!r} is not [HOST:]PORT, such as 6443 or 10.0.0.4:6443")
    if ":" in host or host == ENDPOINT[0] or not host.isprintable() or " " in host:
        raise ValueError(f"{host!r} is not a name or an IPv4 address of a host")
    return HostPort(host or "127.0.0.1", int(port))


_PORT_OF_HOST = Parsed("[HOST:]PORT", _port_of_host)


@click.command(
    "exec",
    cls=SectionedCommand,
    epilog=_EPILOG,
    otherwise="If it is an option of COMMAND, write -- before COMMAND.",
)
@click.option(
    "--grace",
    type=Number(min=0),
    default=GRACE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Time for COMMAND to end after SIGTERM, and then for the processes that it has left.",
)
@click.option(
    "--forward",
    type=_PORT_OF_HOST,
    multiple=True,
    help="Let COMMAND reach this TCP port of the host, or of HOST, at the same address. Can be"
    " repeated.",
)
@isolation_options.isolation
@isolation_options.endpoint_variable
@click.option("--once", is_flag=True, help="End with the machine's first reboot, redeploy or stop.")
@click.option("--quiet", is_flag=True, help="Do not report machine state changes on stderr.")
@click.argument("machine", shell_complete=completion.machines)
@click.argument("program", metavar="-- COMMAND...", nargs=-1, required=True)
@options.service
def command(
    machine: str,
    program: tuple[str, ...],
    service: ServiceTarget,
    *,
    grace: float,
    forward: tuple[HostPort, ...],
    isolation: str,
    endpoint_variable: str,
    once: bool,
    quiet: bool,
) -> None:
    """Run COMMAND as if it were inside MACHINE.

    Inside, http://169.254.169.254 is the metadata endpoint of that machine. COMMAND reaches no
    other network, except the ports that --forward names. Impacts on the machine apply to the
    program: a freeze pauses it, a reboot stops it (SIGTERM, then SIGKILL) and restarts it, a
    redeploy also empties $TMPDIR, an eviction or a delete stops it for good. Does not need root.

    Where the system has no namespaces, COMMAND runs as an ordinary child process of this host: its
    endpoint is at $FAIRWARNING_ENDPOINT, and at http://169.254.169.254 for clients that use
    $http_proxy.

    In namespaces, COMMAND cannot act as another machine, unless root runs it. It always has your
    files: do not run programs that you do not trust.
    """
    data = service.local_folder("exec runs COMMAND beside the service")
    if len(forward) > _MOST_PORTS:
        raise click.UsageError(f"--forward can be repeated {_MOST_PORTS} times at most")
    task = MachineProgram(
        machine,
        program,
        data.resolve(),
        grace,
        quiet=quiet,
        once=once,
        forwarded=forward,
        endpoint_variable=endpoint_variable,
    )
    if not quiet:
        _hint_at_stopped_clock(service, machine)
    try:
        code = foreground.run(_isolated(task, isolation))
    except Unavailable as error:
        click.echo(f"fairwarning: {error.message}; {service.next_step()}", err=True)
        code = errors.FAILED
    except FairwarningError as error:
        click.echo(f"fairwarning: {_text(service, machine, error)}", err=True)
        code = errors.exit_code(error)
    except OSError as error:
        click.echo(f"fairwarning: cannot run inside {machine}: {reason_of(error)}", err=True)
        code = errors.FAILED
    raise SystemExit(code)


def _hint_at_stopped_clock(service: ServiceTarget, machine: str) -> None:
    """Say why nothing happens by itself; the program runs also if the console does not answer."""
    with suppress(FairwarningError):
        client.ask(service, "GET", client.api_path("machines", machine))  # else the error suffices
        show.print_lines(show.stopped_clock_hint(service), err=True)


def _text(service: ServiceTarget, machine: str, error: FairwarningError) -> str:
    """Return the text of an error; for an unknown machine that of the console, which knows more."""
    if isinstance(error, NotFound):
        try:
            client.ask(service, "GET", client.api_path("machines", machine))
        except NotFound as better:
            return better.message
        except FairwarningError:
            pass
    return error.message


def _isolated(task: MachineProgram, wanted: str) -> MachineProgram:
    """Return the task with its isolation; without namespaces, the host's ports are its own."""
    chosen = choose(wanted)
    if chosen.namespaces:
        return task
    return replace(task, isolation=chosen, forwarded=())
