"""`fairwarning certify` gives every handler its verdict; those of the documentation survive."""

import json
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairwarning.testing.certify.traps import TRAPS
from tests.certify.test_certify import AGENT, HANDLERS, ROOT, certify, failed, results
from tests.fixtures.http import free_port
from tests.fixtures.requirements import needs_namespaces, needs_node

pytestmark = [needs_namespaces, pytest.mark.spec("O11", "G1", "G3", "G5", "G6")]

Handler = dict[str, Any]
VERDICTS = tomllib.loads((HANDLERS / "verdicts.toml").read_text("utf-8"))
PROGRAMS = {".py": sys.executable, ".sh": "bash", ".js": "node"}


def command(handler: Handler) -> tuple[str, ...]:
    """Return the options and the command line for a handler."""
    file, *words = handler["run"]
    path = HANDLERS / file
    program = AGENT if file == "agent.toml" else (PROGRAMS[path.suffix], str(path), *words)
    return (*handler.get("options", ()), "--", *program)


def each(kind: str) -> pytest.MarkDecorator:
    """Run a test for each handler of a kind; all but a few are campaigns."""
    cases = []
    for handler in VERDICTS[kind]:
        marks = [] if handler.get("always") else [pytest.mark.campaign]
        marks += [needs_node] if handler["run"][0].endswith(".js") else []
        cases.append(pytest.param(handler, id=" ".join(handler["run"]), marks=marks))
    return pytest.mark.parametrize("handler", cases)


@each("right")
def test_a_correct_handler_survives_all(handler: Handler) -> None:
    """It ignores no type of event."""
    done = certify("--json", *command(handler))
    assert failed(done) == {}
    assert list(results(done)) == [trap.name for trap in TRAPS]
    assert json.loads(done.stdout)["ignored"] == []


@each("broken")
def test_a_broken_handler_gets_its_verdict(handler: Handler) -> None:
    """It fails the traps for its flaw, and the report says what was seen and what it ignores."""
    expected = handler["failed"]
    traps = [f"--trap={name}" for name in (*expected, *handler.get("survived", ()))]
    done = certify("--json", "--prepare", "8", *traps, *command(handler))
    seen = failed(done)
    assert seen.keys() == expected.keys(), seen
    assert {name: why for name, why in seen.items() if not re.search(expected[name], why)} == {}
    if "ignored" in handler:
        assert json.loads(done.stdout)["ignored"] == handler["ignored"]


# --- The handlers of the documentation ------------------------------------------------------------

Command = Callable[[Path], list[str]]


def on_page(name: str) -> Command:
    """Return a function that saves the handler of a page and returns the command to run it."""

    def command(folder: Path) -> list[str]:
        text = (ROOT / "docs" / name).read_text("utf-8")
        (handler,) = re.findall(
            r"^<!-- file: handler.py -->\n```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
        )
        path = folder / "handler.py"
        path.write_text(handler, "utf-8")
        return [sys.executable, str(path)]

    return command


def example(name: str) -> Command:
    """Return a function that returns the command of an example, with a free port."""
    return lambda _: [sys.executable, str(ROOT / "examples" / name), str(free_port())]


# Without the load balancer: it approves when it is out of rotation, and nothing probes it here.
DOCUMENTED = {
    "first-event.md": on_page("first-event.md"),
    "laptop.md": on_page("laptop.md"),
    "python-sdk.md": on_page("python-sdk.md"),
    "web-server": example("web-server/server.py"),
}


@pytest.mark.campaign
@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_documented_handler_survives_all(name: str, tmp_path: Path) -> None:
    """Nobody copies a flaw from us."""
    assert failed(certify("--json", "--", *DOCUMENTED[name](tmp_path))) == {}


def test_no_handler_is_missing() -> None:
    """Every page with a handler is in the list."""
    pages = (ROOT / "docs").rglob("*.md")
    named = [page.name for page in pages if "<!-- file: handler.py -->" in page.read_text("utf-8")]
    assert sorted(named) == sorted(name for name in DOCUMENTED if name.endswith(".md"))
