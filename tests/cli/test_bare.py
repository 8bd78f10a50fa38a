"""The bare install: only the package itself and the standard library."""

import subprocess
import sys
from importlib.metadata import distribution, version
from pathlib import Path

import pytest

import fairwarning

# -S hides what is installed; the package and its metadata are added again.
PROGRAM = """
import runpy, sys
sys.path[:0] = sys.argv[1:3]
del sys.argv[1:3]
runpy.run_module("fairwarning", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(name="metadata", scope="module")
def _metadata(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the metadata of the installed package, and nothing else."""
    folder = tmp_path_factory.mktemp("site")
    copy = folder / f"fairwarning-{version('fairwarning')}.dist-info"
    copy.mkdir()
    (copy / "METADATA").write_text(distribution("fairwarning").read_text("METADATA") or "")
    return folder


def run_bare(
    metadata: Path, *words: str, program: str = PROGRAM
) -> subprocess.CompletedProcess[str]:
    """Run the program in a Python without any installed package."""
    source = str(Path(fairwarning.__file__).parents[1])
    command = [sys.executable, "-I", "-S", "-c", program, source, str(metadata), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_version(metadata: Path) -> None:
    """The program and the module have it, as in a complete install."""
    done = run_bare(metadata, "--version")
    assert (done.returncode, done.stdout) == (0, f"fairwarning, version {version('fairwarning')}\n")
    module = (
        "import sys; sys.path[:0] = sys.argv[1:3]; import fairwarning as f; print(f.__version__)"
    )
    assert run_bare(metadata, program=module).stdout.strip() == fairwarning.__version__


def test_the_help(metadata: Path) -> None:
    """It lists what there is, and what to install for the rest."""
    done = run_bare(metadata, "--help")
    assert done.returncode == 0
    assert "agent  Run hooks inside a machine" in done.stdout
    assert "need the server: pip install 'fairwarning[server]'" in done.stdout
    alone = run_bare(metadata)
    assert (alone.returncode, alone.stderr) == (2, done.stdout)


def test_the_agent(metadata: Path) -> None:
    """It is whole: its help, and its errors about its configuration."""
    assert "usage: fairwarning agent" in run_bare(metadata, "agent", "--help").stdout.lower()
    done = run_bare(metadata, "agent", "check", "--config", "no-such-file.toml")
    assert done.returncode != 0
    assert "no-such-file.toml" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["up", "machine", "exec"])
def test_a_command_of_the_server(metadata: Path, command: str) -> None:
    """The error names the extra."""
    done = run_bare(metadata, command, "--help")
    assert done.returncode == 1
    text = f"`fairwarning {command}` needs the server: pip install 'fairwarning[server]'\n"
    assert done.stderr == text


def test_an_unknown_command(metadata: Path) -> None:
    """It is not taken for one of the server's."""
    done = run_bare(metadata, "upp")
    assert (done.returncode, done.stderr) == (
        2,
        "Error: No such command 'upp'. Try 'fairwarning --help'.\n",
    )
