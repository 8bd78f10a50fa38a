"""Servers that answer polls: our service, nginx, and a minimal server in Go."""

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from socket import create_connection
from string import Template

from fairwarning.core import limits
from tests.bench.clients import DROPPED, addresses, poll, size_of
from tests.bench.context import BenchmarkContext
from tests.bench.fleets import SCOPE
from tests.bench.processes import SERVER_CORE, Process
from tests.fixtures.http import free_port

OURS = "Fairwarning"
NGINX = "nginx, `return 200`"
GO = "Go net/http, the same checks"

SCALE_SET = 100  # machines of a scale set in the served fleets
_START_SECONDS = 60.0
_ENOUGH = 20_000  # connections
_OTHER_DESCRIPTORS = 1000 + 2 * limits.PORT_CONNECTIONS  # the console and ARM ports have their own
_PEERS = Path(__file__).parent / "peers"


def _settings() -> str:
    """As many connections as descriptors allow."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ENOUGH if hard == resource.RLIM_INFINITY else min(_ENOUGH, hard - _OTHER_DESCRIPTORS)
    return f"[metadata]\nconnections = {most}\nconnections_of_machine = {most}\n"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to start a server."""

    name: str
    folder: Path
    addresses: Sequence[str]  # that it answers
    command: Callable[[int], list[str]]  # given a port
    environment: Mapping[str, str] = field(default_factory=dict)
    tells: bool = False  # whether it prints a line when it is ready
    cores: Sequence[int] = (SERVER_CORE,)


@dataclass(frozen=True, slots=True)
class Contender:
    """A running server."""

    name: str
    process: Process
    addresses: Sequence[str]
    port: int
    first_answer_seconds: float  # after its start
    answer: bytes


@contextmanager
def running(recipe: Recipe) -> Iterator[Contender]:
    """Start a server, wait until it answers a poll, and stop it at the end."""
    port, address = free_port(), recipe.addresses[0]
    recipe.folder.mkdir(parents=True, exist_ok=True)
    log = recipe.folder / "log"
    with Process(recipe.command(port), log, recipe.environment, recipe.cores) as process:
        answer = first_answer(process, address, port)
        seconds = time.perf_counter() - process.began
        if recipe.tells:
            process.line()
        yield Contender(recipe.name, process, recipe.addresses, port, seconds, answer)


def first_answer(process: Process, address: str, port: int) -> bytes:
    """Poll repeatedly until there is a response."""
    while True:
        try:
            return ask(address, port, poll(address))
        except ConnectionRefusedError:
            process.check()
            if time.perf_counter() - process.began > _START_SECONDS:
                raise
            time.sleep(0.0002)


def ask(address: str, port: int, request: bytes) -> bytes:
    """Send a request on a new connection, without an event loop."""
    with create_connection((address, port), _START_SECONDS) as connection:
        connection.sendall(request)
        answer = b""
        while len(answer) < size_of(answer):
            more = connection.recv(65536)
            if not more:
                raise ConnectionResetError(DROPPED)
            answer += more
    return answer


# --- Ours -------------------------------------------------------------------------------------


def in_memory(context: BenchmarkContext, machines: int) -> Recipe:
    """`fairwarning up --memory` with scale sets of this many machines in total."""
    folder = context.folder / f"up-{machines}"
    sets = range(-(-machines // SCALE_SET))
    entries = [f'[[scale_set]]\nname = "set{at}"\ncapacity = {SCALE_SET}\n' for at in sets]
    return up(folder, addresses(range(1, machines + 1)), "\n".join(entries), ["--memory"])


def stored(context: BenchmarkContext, machines: int, *, spread: bool = False) -> Recipe:
    """`fairwarning up` with a copy of a stored fleet, polled by the machines of one scope.

    Or, to `spread`, as just as many machines from all over the fleet.
    """
    folder = context.folder / f"up-stored-{machines}"
    (folder / "data").mkdir(parents=True, exist_ok=True)
    shutil.copy(context.fleet(machines), folder / "data")
    step = machines // SCOPE if spread else 1
    asked = addresses(range(1, machines + 1))[::step][:SCOPE]
    name = f"{machines:,} machines" + ", of as many scopes as ask" * spread
    return replace(up(folder, asked), name=name)


def holder(context: BenchmarkContext) -> Recipe:
    """Our service in a program that changes a document on a signal."""
    folder = context.folder / "holder"

    def start(port: int) -> list[str]:
        shutil.rmtree(folder / "data", ignore_errors=True)
        (folder / "fleet.toml").write_text(
            f'{_settings()}\n[[availability_set]]\nname = "held"\nmachines = {SCALE_SET}\n', "utf-8"
        )
        return [sys.executable, "-m", "tests.bench.longpolls", str(folder), str(port)]

    return Recipe(OURS, folder, addresses(range(1, SCALE_SET + 1)), start, tells=True)


def up(folder: Path, asked: Sequence[str], fleet: str = "", options: Sequence[str] = ()) -> Recipe:
    """`fairwarning up` with a fleet file of this text and data in its folder."""
    words = ["--json", "--data", str(folder / "data"), *options]
    return with_stored_fleet(folder, OURS, asked, words, fleet)


def with_stored_fleet(
    folder: Path, name: str, asked: Sequence[str], options: list[str], fleet: str = ""
) -> Recipe:
    """`fairwarning up` with the data that the options name."""
    start = partial(serve, folder, f"{_settings()}\n{fleet}", options)
    return Recipe(name, folder, asked, start, tells=True)


def serve(folder: Path, fleet: str, options: list[str], port: int) -> list[str]:
    """The command that starts our service; the options name the data."""
    program = str(Path(sys.executable).with_name("fairwarning"))
    path = folder / "fleet.toml"
    path.write_text(fleet, "utf-8")
    where = ["--metadata", f"127.0.0.1:{port}", "--console", "127.0.0.1:0", "--arm", "127.0.0.1:0"]
    return [program, "up", str(path), *where, *options]


# --- Peers ------------------------------------------------------------------------------------


def peers(
    context: BenchmarkContext, asked: Sequence[str], body: bytes
) -> tuple[list[Recipe], list[str]]:
    """The installed peers, and a sentence about each missing one."""
    if not context.effort.apart:
        return [], []
    recipes, missing = [], []
    for name, program, recipe in ((NGINX, "nginx", nginx), (GO, "go", _go)):
        if path := installed(program):
            recipes.append(recipe(context, path, asked, body))
        else:
            missing.append(f"{name}: not measured, because {program} is not installed.")
    return recipes, missing


def installed(program: str) -> str | None:
    """The path of a program, or None."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")


def nginx(
    context: BenchmarkContext, program: str, asked: Sequence[str], body: bytes, workers: int = 1
) -> Recipe:
    """nginx; with several workers, each has its own listener, as ours do."""
    folder = context.folder / f"nginx-{workers}"
    reuse = " reuseport" if workers > 1 else ""
    template = Template((_PEERS / "nginx.conf").read_text("utf-8"))

    def start(port: int) -> list[str]:
        text = template.substitute(
            address=asked[0], port=port, body=body.decode(), workers=workers, reuse=reuse
        )
        path = folder / "nginx.conf"
        path.write_text(text, "utf-8")
        return [program, "-p", str(folder), "-c", str(path), "-e", "stderr"]

    return Recipe(NGINX, folder, [asked[0]] * len(asked), start)


def _go(context: BenchmarkContext, program: str, asked: Sequence[str], body: bytes) -> Recipe:
    folder = context.folder / "twin"
    folder.mkdir(exist_ok=True)
    twin, document, callers = folder / "twin", folder / "document", folder / "addresses"
    document.write_bytes(body)
    callers.write_text("\n".join(asked), "ascii")
    if not twin.exists():
        settings = {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
        subprocess.run(
            [program, "build", "-o", str(twin), str(_PEERS / "twin.go")],
            env={**os.environ, **settings},
            check=True,
        )

    def start(port: int) -> list[str]:
        return [str(twin), str(port), str(document), str(callers)]

    return Recipe(GO, folder, asked, start, {"GOMAXPROCS": "1"})


@contextmanager
def beside(context: BenchmarkContext, ours: Recipe) -> Iterator[tuple[list[Contender], list[str]]]:
    """Run our service and its peers, which serve our document."""
    with ExitStack() as stack:
        first = stack.enter_context(running(ours))
        recipes, notes = peers(context, ours.addresses, first.answer.partition(b"\r\n\r\n")[2])
        yield [first, *(stack.enter_context(running(recipe)) for recipe in recipes)], notes
