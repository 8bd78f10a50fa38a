"""fairwarning-agent.pyz: one file that needs nothing but Python."""

import ast
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

import fairwarning
from tests.fixtures.programs import ROOT, run_program, run_python, start_program
from tests.fixtures.waiting import wait_until
from tests.guest.agents import environment, one_machine

IMPORT_ALL = """
import sys
from importlib import import_module
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    import_module(name)
"""
OWN_HOOK = """
from pathlib import Path
def note(event, phase, ends, cancelled):
    Path(__file__).with_name("noted").write_text(event.id)
"""
CALL = '[[hook]]\nname = "own"\nphase = "scheduled"\ncall = "own_hooks:note"\n'


def sources(pyz: Path) -> dict[str, str]:
    """Return the Python files in the program, by path."""
    with ZipFile(pyz) as archive:
        names = [name for name in archive.namelist() if name.endswith(".py")]
        return {name: archive.read(name).decode() for name in names}


# --- The file -------------------------------------------------------------------------------------


def test_it_contains_the_guest_side_and_nothing_of_the_service(pyz: Path) -> None:
    """Everything below `guest`, what it imports of `core`, and tomli."""
    names = set(sources(pyz))
    folder = ROOT / "src"
    guest = {p.relative_to(folder).as_posix() for p in folder.rglob("fairwarning/guest/**/*.py")}
    assert {name for name in names if name.startswith("fairwarning/guest/")} == guest
    others = {"__init__", "configuration", "errors", "times"}
    assert {name for name in names if name.startswith("fairwarning/core/")} == {
        f"fairwarning/core/{name}.py" for name in others
    }
    parts = ("fairwarning/guest/", "fairwarning/core/", "fairwarning/cli/agent", "tomli/")
    rest = {name for name in names if not name.startswith(parts)}
    assert rest == {
        "__main__.py",
        "fairwarning/__init__.py",
        "fairwarning/cli/__init__.py",
        "fairwarning/cli/main.py",
    }


def test_it_contains_the_licences(pyz: Path) -> None:
    """Ours, and tomli's, which has to go along."""
    with ZipFile(pyz) as archive:
        licenses = [archive.read(name) for name in archive.namelist() if name.endswith("LICENSE")]
    assert [b"Apache License" in text for text in licenses] == [True, False]
    assert b"Taneli Hukkinen" in licenses[1]


@pytest.mark.spec("G10")
def test_every_file_is_written_in_the_language_of_python_3_9(pyz: Path) -> None:
    """Also where no such Python is at hand to try."""
    for name, source in sources(pyz).items():
        ast.parse(source, name, feature_version=(3, 9))


# --- On this Python and on an older one -----------------------------------------------------------


@pytest.mark.spec("G10")
def test_version_and_help(pyz: Path, python: str) -> None:
    """They have the version of the project and the name of the file."""
    done = run_program(python, "-I", pyz, "--version", cwd="/")
    text = f"fairwarning-agent, version {fairwarning.__version__}\n"
    assert (done.returncode, done.stdout) == (0, text)
    done = run_program(python, "-I", pyz, "--help", cwd="/")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: fairwarning-agent ")
    assert "  fairwarning-agent run --config agent.toml\n" in done.stdout
    assert "fairwarning agent" not in done.stdout


@pytest.mark.spec("G10")
def test_every_module_can_be_imported(pyz: Path, python: str) -> None:
    """With nothing installed beside it."""
    names = {name.removesuffix(".py").replace("/", ".") for name in sources(pyz)} - {"__main__"}
    if python == sys.executable:  # which has tomllib
        names = {name for name in names if not name.startswith("tomli")}
    modules = sorted(name.removesuffix(".__init__") for name in names)
    done = run_program(python, "-I", "-S", "-c", IMPORT_ALL, pyz, *modules)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.spec("G4", "G10")
def test_an_event_from_its_notice_to_its_end(pyz: Path, python: str, tmp_path: Path) -> None:
    """It checks, runs hooks, also one of the user's own module, approves, and stops."""
    with one_machine(tmp_path) as (endpoint, home):
        home.usual_hooks()
        home.hooks.append(CALL)
        (home.folder / "own_hooks.py").write_text(OWN_HOOK, "utf-8")
        settings = {**environment(), "PYTHONPATH": str(home.folder)}
        config = str(home.config())
        done = run_program(python, pyz, "check", "--config", config, env=settings)
        assert done.returncode == 0, done.stderr
        assert "db_0" in done.stdout
        words = (python, str(pyz), "run", "--config", config)
        with start_program(*words, folder=tmp_path, env=settings) as agent:
            event = endpoint.restart("db_0")
            wait_until(lambda: "flush" in home.ran(), lambda: agent.output)
            assert endpoint.approvals == [("db_0", (event.id,))]
            assert (home.folder / "noted").read_text("utf-8") == event.id
            endpoint.finish("db")
            wait_until(lambda: "back" in home.ran() and not home.steps(), lambda: agent.output)
            agent.process.terminate()
            wait_until(lambda: agent.has_ended, lambda: agent.output)
            assert agent.process.returncode == 0


@pytest.mark.spec("G10")
def test_errors_are_those_of_the_agent(pyz: Path, python: str, tmp_path: Path) -> None:
    """Also on a Python whose configuration tomli reads."""
    config = tmp_path / "agent.toml"
    config.write_text("endpoint =\n", "utf-8")
    done = run_program(python, pyz, "check", "--config", config)
    assert done.returncode == 1
    assert f"{config}: this is not TOML" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_python_that_is_too_old(pyz: Path) -> None:
    """It says which version it needs, before anything that the version cannot read."""
    code = "import sys, runpy; sys.version_info = (3, 8); runpy.run_path(sys.argv[1])"
    done = run_python(code, pyz)
    assert done.returncode == 1
    assert done.stderr.startswith("fairwarning-agent needs Python 3.9 or newer; this is Python ")


@pytest.mark.spec("G10")
def test_other_commands_on_an_older_python(old_python: str, tmp_path: Path) -> None:
    """An installed package names the version that the service needs."""
    settings = {**environment(), "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = run_program(old_python, "-m", "fairwarning", "up", cwd=tmp_path, env=settings)
    assert done.returncode == 1
    assert "`fairwarning up` needs Python 3.11 or newer; this is Python 3." in done.stderr
    assert list(tmp_path.iterdir()) == []
