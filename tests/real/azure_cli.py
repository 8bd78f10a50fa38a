"""The real service with a virtual clock, and the real Azure CLI as its client."""

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.fixtures.service import FREE, BackgroundCommand
from tests.real.tool_service import GROUP, ToolService

__all__ = ["GROUP", "NEW", "AzureCliService", "assert_succeeds"]

NEW = ("--image", "UbuntuLTS", "--admin-username", "azureuser", "--generate-ssh-keys")
"""The options of a new machine in Azure's documentation."""


class AzureCliService(ToolService):
    """A service with a virtual clock, with methods for Azure CLI users."""

    def __init__(self, data: Path, *, fleet: str = "", arm: str = FREE) -> None:
        super().__init__(data, fleet=fleet, arm=arm)
        self._commands = ExitStack()

    def __exit__(self, *error: object) -> None:
        self._commands.close()
        super().__exit__(*error)

    def az(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, whatever its exit code."""
        return self.run("az", *words)

    def az_json(self, *words: str) -> Any:  # noqa: ANN401  (its output)
        """Run a command that must succeed, and return its JSON output."""
        done = self.az(*words)
        assert done.returncode == 0, (words, done.stderr)
        return json.loads(done.stdout) if done.stdout.strip() else None

    def az_error(self, *words: str) -> str:
        """Run a command that must fail, and return the first line of its error."""
        done = self.az(*words)
        assert done.returncode == 1, (words, done.stdout)
        assert "Traceback" not in done.stderr
        return done.stderr.splitlines()[0]

    def start_az(self, *words: str) -> BackgroundCommand:
        """Start a command that waits for its operation."""
        return self._commands.enter_context(self.start_command("az", *words))

    def path(self, resource: str) -> str:
        """Return the path of a compute resource of the group, for `az rest`."""
        group = f"/subscriptions/{self.ready['subscription']}/resourceGroups/{GROUP}"
        return f"{group}/providers/Microsoft.Compute/{resource}"


def assert_succeeds(command: BackgroundCommand) -> None:
    """Wait for a command, and check that it succeeds."""
    code, _, errors = command.wait()
    assert code == 0, errors
