"""What `fairwarning up` writes: its log, and when it is ready the machines and commands to try."""

import json
import logging
import shlex
import sys
import time
from math import ceil
from pathlib import Path

from fairwarning.cli.connection.redaction import without_secrets
from fairwarning.cli.output.show import counted
from fairwarning.core import limits
from fairwarning.core.commands import CreateSet
from fairwarning.core.printable import printable
from fairwarning.guest.log_writer import LogWriter, QueuedStream
from fairwarning.server import hints
from fairwarning.server.output import Output
from fairwarning.server.ready import ReadyLine, socket_url
from fairwarning.server.wiring import ServerProcess
from fairwarning.service.config.fleet_file import ApplyResult, FleetFile

_PIPE_CHARACTERS = 32 * 1024  # that fit into an unread pipe
_SHOWN = 12  # machines listed in the text output
_AZ = "vm", "list", "--output", "table"
_QUERY = "metadata/scheduledevents?api-version=2020-07-01"
_NO_URL = (
    "  A machine without a URL is reached from its own address, by `fairwarning exec`, or after\n"
    "  `up` with --machine-ports, --default-machine or --sockets (`fairwarning machine url`)."
)
_EMPTY = "  No machines yet; give a fleet file, or start with --demo."
_OWN_DATA = "my-fleet"  # a data folder that the demo has not used


async def print_json(server: ServerProcess, ready: ReadyLine, output: Output) -> None:
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


async def print_text(
    server: ServerProcess, ready: ReadyLine, output: Output, *, demo: bool
) -> None:
    """Print the machines, and commands to try."""
    lines = [_summary(server.applied, server.options.fleet)]
    lines += [*(_kept(server) if server.applied.kept and not demo else ()), ""]
    shown: list[tuple[str, str | None]] = []
    async for name, url in server.machines():
        if len(shown) == _SHOWN:
            break
        has_socket = name not in dict(shown)  # of several with this name, the first
        shown.append((name, url or (socket_url(ready, name) if has_socket else None)))
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
        f"Fairwarning is up. Created {counted(machines, 'machine')} in {counted(scopes, 'scope')}."
    )


def _kept(server: ServerProcess) -> list[str]:
    scale = hints.command_line(server.options.data, "set scale", "NAME", "CAPACITY")
    return [
        f"The file does not change what exists. To change it, use commands such as `{scale}`.",
        "To begin with the file as it is now, start with another --data folder.",
    ]


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


# --- The log --------------------------------------------------------------------------------------


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Format a record as a JSON object: time, level, logger, message and any traceback."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
        }
        if record.exc_info:
            line["traceback"] = without_secrets(self.formatException(record.exc_info))
        return json.dumps(line)


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Format a record as a line, followed by any traceback."""
        return without_secrets(printable(super().format(record), keep="\n"))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (logging's name)
        """Format the line: a line break in the message begins no other line."""
        return printable(super().formatMessage(record))


def log_to_stderr(*, as_json: bool) -> None:
    """Send all logs to stderr, as plain lines or as one JSON object per line (O10).

    A thread writes them, and all else that this process writes to stderr: nobody may read it (IB4).
    """
    handler = LogWriter(sys.stderr)
    sys.stderr = QueuedStream(sys.stderr, handler)
    plain = _Plain("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")
    handler.setFormatter(_Json() if as_json else plain)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
