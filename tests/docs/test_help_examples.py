"""Every example of `--help` succeeds as it is printed, on a fresh demo and on a real terminal."""

import re
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from tests.docs.chapters.cli import helps
from tests.docs.terminal import Terminal
from tests.fixtures.requirements import needs_curl, needs_namespaces

_SECTION = re.compile(
    r"^ *examples[^\n]*:\n(.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL | re.IGNORECASE
)
_COMMENT = re.compile(r"(?: {3,}\(.*\)| {8,}\w.*)$")
"""Behind an example: a remark in brackets, or what it does, as in the help of the agent."""


def examples() -> dict[str, list[str]]:
    """Return the examples of each command, in order."""
    found = {words: list(_examples(text)) for words, text in helps().items()}
    return {words: lines for words, lines in found.items() if lines}


def _examples(text: str) -> Iterator[str]:
    section = _SECTION.search(text)
    if section:
        for line in section[1].replace("\\\n", "").splitlines():
            yield _COMMENT.sub("", line.strip())


FIRST = ("machine", "event", "set scale")
"""The commands whose examples `make test` types; `make test-all` types the others."""
NEEDS = {
    "fairwarning az ": "the Azure CLI; tests/arm runs it",
    "fairwarning webhook create ": "a fleet file that allows the host; docs/webhooks.md has one",
    "fairwarning webhook test ": "a target; docs/webhooks.md has one",
    "fairwarning webhook delete ": "a webhook; docs/webhooks.md has one",
    "fairwarning bug release ": "a bug; tests/service plants one",
    "fairwarning certify ": "minutes; docs/certify.md has one",
    "up fleet.toml --data postgresql:": "PostgreSQL; tests/cli/test_workers.py has one",
    "up fleet.toml --metadata 10.0.0.1:80": "that address; docs/run-systemd.md has one",
    "completion zsh": "zsh; tests/cli/test_manners.py prints the script",
}
"""Examples that a demo alone cannot run, and what they need."""
ENDLESS = re.compile(r"fairwarning (up|event watch|agent run|.* --watch)")
ALONE = ("up", "scenario", "completion", "version")
"""Commands that need no running service."""
BEFORE = {
    "context use": "fairwarning context add prod --server http://127.0.0.1:8170 < token",
    "context remove": "fairwarning context add prod --server http://127.0.0.1:8170 < token",
    "rollout resume": "fairwarning rollout pause kernel-update",
    "token revoke": "fairwarning token create other --role reader",
}
"""What the examples of a command need, and what the examples of its group do before them."""
DEMO = "fairwarning up --demo --clock virtual"
FAST = "fairwarning clock run 86400"
HANDLER = "#!/bin/sh\ncurl -sf -H Metadata:true http://169.254.169.254/metadata/versions\n"
FLEET = '[[machine]]\nname = "web"\n'


class DemoUser:
    """A user of a demo who types the examples of one command."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        folder = terminal.folder
        (folder / "fleet.toml").write_text(FLEET)
        (folder / "agent.toml").write_text('approve = "never"\n')
        (folder / "my-handler").write_text(HANDLER)
        (folder / "my-handler").chmod(0o755)
        (folder / ".config/fish/completions").mkdir(parents=True)

    def start(self, words: str) -> None:
        """Start the demo, whose clock stands still, if the command needs it."""
        if words.split(maxsplit=1)[0] in ALONE:
            return
        self._terminal.begin(DEMO, "...\nCtrl-C stops it.")
        self._terminal.type("fairwarning token create ops --role operator > token", "")
        if words in BEFORE:
            self._terminal.type(BEFORE[words], "")

    def type(self, example: str) -> None:
        """Type an example, answer its questions, and end it if it would run for ever."""
        typed = self._with_ids(example)
        if "agent" in typed.split()[:2]:
            typed = f"FAIRWARNING_ENDPOINT=$(fairwarning machine url web_0) {typed}"
        if ENDLESS.match(example):
            self._terminal.begin(typed, "")
            code, output = self._terminal.interrupt(), ""
        else:
            waits = "--wait" in example and not example.startswith("fairwarning healthcheck")
            if waits:
                self._terminal.type(FAST, "")
            code, output = self._terminal.answer(typed, "exit\n" if "bash" in typed else "y\n")
            if waits:
                self._terminal.type("fairwarning clock freeze", "")
        assert code == 0, f"$ {typed}\nexit code {code}\n{output}"

    def _with_ids(self, example: str) -> str:
        """Return the example with ids of the demo."""
        if not re.search(r"\bID\b", example):
            return example
        noun = example.split()[1]
        listed = self._terminal.run(f"fairwarning {noun} list -o name").stdout.split()
        ids = cycle(listed)
        return re.sub(r"\bID\b", lambda _: next(ids), example)


def is_run(example: str) -> bool:
    """Return whether a demo can run the example."""
    return not any(text in example for text in NEEDS)


def cases() -> Iterator[object]:
    """Yield the commands that have examples, with marks for what these need."""
    for words, lines in examples().items():
        text = "\n".join(filter(is_run, lines))
        if not text:
            continue
        marks = [] if words in FIRST else [pytest.mark.campaign]
        marks += [needs_namespaces] if "fairwarning exec" in text else []
        marks += [needs_curl] if "curl" in text else []
        yield pytest.param(words, marks=marks, id=words)


@pytest.mark.parametrize("words", list(cases()))
def test_the_examples_of_a_command(words: str, tmp_path: Path) -> None:
    """They succeed one after the other."""
    with Terminal(tmp_path) as terminal:
        user = DemoUser(terminal)
        user.start(words)
        for example in filter(is_run, examples()[words]):
            user.type(example)


@pytest.mark.parametrize("text", NEEDS)
def test_what_is_not_run_exists(text: str) -> None:
    """Each exception is about an example."""
    assert any(text in line for lines in examples().values() for line in lines)
