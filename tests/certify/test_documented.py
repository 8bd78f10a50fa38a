"""The handlers in the documentation and the examples survive every trap of certify."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.certify.test_certify import certify, failed
from tests.fixtures.http import free_port
from tests.fixtures.requirements import needs_namespaces

ROOT = Path(__file__).parents[2]
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
HANDLERS = {
    "first-event.md": on_page("first-event.md"),
    "laptop.md": on_page("laptop.md"),
    "python-sdk.md": on_page("python-sdk.md"),
    "web-server": example("web-server/server.py"),
}


@needs_namespaces
@pytest.mark.spec("O11")
@pytest.mark.campaign
@pytest.mark.parametrize("name", HANDLERS)
def test_a_documented_handler_survives_all(name: str, tmp_path: Path) -> None:
    """Nobody copies a flaw from us."""
    assert failed(certify("--json", "--", *HANDLERS[name](tmp_path))) == {}


def test_no_handler_is_missing() -> None:
    """Every page with a handler is in the list."""
    pages = (ROOT / "docs").rglob("*.md")
    named = [page.name for page in pages if "<!-- file: handler.py -->" in page.read_text("utf-8")]
    assert sorted(named) == sorted(name for name in HANDLERS if name.endswith(".md"))
