"""Install each file of a release and let it do its first job: `python3 try_release.py DIST`.

For a bare system that is thrown away afterwards: Python 3.11, make and a package index, nothing
else. This file needs nothing beside it. Root also installs the Debian package.
"""

import hashlib
import os
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from urllib.request import Request, urlopen

_READY = "Ctrl-C stops it"
_LIMIT_SECONDS = 900  # for what is installed first; a start takes a few
_DOCUMENT = "/metadata/scheduledevents?api-version=2020-07-01"


def main(dist: Path, work: Path) -> None:
    """Try everything; an error ends the program."""
    _verify(dist)
    program = _install_wheel(dist, work)
    with _service([program, "up", "--demo", *_free_addresses()], work) as endpoint:
        _report("wheel", "fairwarning up --demo", _ask(endpoint))
        pyz = dist / "fairwarning-agent.pyz"
        _report("pyz", "check", _run(sys.executable, pyz, "check", endpoint=endpoint))
        if os.geteuid() == 0:
            _run("dpkg", "--install", _only(dist, "fairwarning-agent_*.deb"))
            config = "/etc/fairwarning/agent.toml"
            command = ("fairwarning-agent", "check", "--config", config)
            _report("deb", "fairwarning-agent check", _run(*command, endpoint=endpoint))
    source = _unpack(_only(dist, "fairwarning-[0-9]*.tar.gz"), work)
    words = " ".join(_free_addresses())
    with _service(["make", "run", f"ARGS={words}"], source) as endpoint:
        _report("sdist", "make run", _ask(endpoint))


def _report(file: str, job: str, answer: str) -> None:
    sys.stdout.write(f"== {file}: {job}\n{answer.strip()}\n")
    sys.stdout.flush()


# --- Files ----------------------------------------------------------------------------------------


def _verify(dist: Path) -> None:
    lines = (dist / "SHA256SUMS").read_text("ascii").splitlines()
    for digest, name in (line.split("  ") for line in lines):
        if hashlib.sha256((dist / name).read_bytes()).hexdigest() != digest:
            sys.exit(f"{name} does not have its checksum: download it again")
    _report("SHA256SUMS", "verify", f"{len(lines)} files are intact")


def _only(dist: Path, pattern: str) -> Path:
    (path,) = dist.glob(pattern)
    return path


def _install_wheel(dist: Path, work: Path) -> str:
    """Install the wheel with the service; return the path of the program."""
    _run(sys.executable, "-m", "venv", work / "venv")
    wheel = _only(dist, "fairwarning-*.whl")
    _run(work / "venv" / "bin" / "pip", "install", "--quiet", f"{wheel}[server]")
    return str(work / "venv" / "bin" / "fairwarning")


def _unpack(archive: Path, work: Path) -> Path:
    with tarfile.open(archive) as content:
        content.extractall(work / "source")  # noqa: S202  (its checksum was verified)
    (folder,) = (work / "source").iterdir()
    return folder


# --- Programs -------------------------------------------------------------------------------------


def _run(*command: str | Path, endpoint: str = "") -> str:
    """Run a program; return its output."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"  # which dpkg needs, and not every root has
    environment = {**os.environ, "PATH": path}
    if endpoint:
        environment["FAIRWARNING_ENDPOINT"] = endpoint
    done = subprocess.run(  # noqa: S603  (programs named in this file)
        command, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{command} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def _service(command: list[str], folder: Path) -> Iterator[str]:
    """Start a service; provide the address of the endpoint of its first machine."""
    process = subprocess.Popen(  # noqa: S603  (programs named in this file)
        command, cwd=folder, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    limit = Timer(_LIMIT_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
    limit.start()
    try:
        yield _first_endpoint(process)
    finally:
        limit.cancel()
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _first_endpoint(process: subprocess.Popen[str]) -> str:
    lines = []
    for line in process.stdout or ():
        lines.append(line)
        if _READY in line:
            return next(w for text in lines for w in text.split() if w.startswith("http://127."))
    sys.exit(f"the service did not start:\n{''.join(lines)}")


def _free_addresses() -> list[str]:
    """Return options with free ports, as the usual ones may be in use."""
    options = ("--metadata", "--console", "--arm")
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in options]
    ports = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return [w for o, port in zip(options, ports, strict=True) for w in (o, f"127.0.0.1:{port}")]


def _ask(endpoint: str) -> str:
    """Return the document of scheduled events."""
    request = Request(endpoint + _DOCUMENT, headers={"Metadata": "true"})  # noqa: S310  (see above)
    with urlopen(request, timeout=130) as response:  # noqa: S310  (an address of this machine)
        return str(response.read().decode())


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(Path(sys.argv[1]).resolve(), Path(folder))
