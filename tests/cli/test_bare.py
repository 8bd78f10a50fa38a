"""The bare install: only the package itself and the standard library."""

import subprocess
import sys
from importlib.metadata import distribution, version
from pathlib import Path

import pytest

import fairwarning
from fairwarning.cli import main

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
    for word in ("--version", "version"):
        done = run_bare(metadata, word)
        expected = f"fairwarning, version {version('fairwarning')}\n"
        assert (done.returncode, done.stdout) == (0, expected)
    module = (
        "import sys; sys.path[:0] = sys.argv[1:3]; import fairwarning as f; print(f.__version__)"
    )
    assert run_bare(metadata, program=module).stdout.strip() == fairwarning.__version__


def test_the_help(metadata: Path) -> None:
    """It lists what there is, and what to install for the rest."""
    done = run_bare(metadata, "--help")
    assert done.returncode == 0
    assert run_bare(metadata, "-h").stdout == done.stdout
    assert "agent    Run hooks inside a machine" in done.stdout
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


@pytest.fixture(name="older_python")
def _older_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the program believe that Python is older; what is installed stays."""
    monkeypatch.setattr(sys, "version_info", (3, 9, 16))


@pytest.mark.spec("G10")
@pytest.mark.usefixtures("older_python")
@pytest.mark.parametrize("words", [["up"], ["machine", "list"], ["exec", "--help"]])
def test_an_older_python(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A command of the server names the version that it needs, not a package to install."""
    monkeypatch.setattr(sys, "argv", ["fairwarning", *words])
    with pytest.raises(SystemExit) as ended:
        main.main()
    needs = "needs Python 3.11 or newer; this is Python 3.9.16"
    assert ended.value.code == f"`fairwarning {words[0]}` {needs}"


@pytest.mark.spec("G10")
@pytest.mark.usefixtures("older_python")
def test_the_help_on_an_older_python(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It lists the agent, and says what the other commands need."""
    monkeypatch.setattr(sys, "argv", ["fairwarning", "--help"])
    main.main()
    text = capsys.readouterr().out
    assert "agent    Run hooks inside a machine" in text
    assert "The other commands need Python 3.11 or newer; this is Python 3.9.16\n" in text
    assert "pip install" not in text
