"""Files with the output of the last run of each hook, for the administrator."""

from __future__ import annotations

import logging
from pathlib import Path
from urllib.parse import quote

from fairwarning.guest.agent import system
from fairwarning.guest.agent.actions import RunHook

KEPT_BYTES = 64 * 1024  # of a program's output, from its end
_NAME_CHARACTERS = 100

log = logging.getLogger(__name__)


class HookOutput:
    """A folder with a file for each hook and phase."""

    def __init__(self, state: Path | None) -> None:
        """Without a folder, keep nothing."""
        self._folder = state / "output" if state else None

    def path(self, run: RunHook) -> Path | None:
        """Return the file for the output of a hook."""
        return (
            self._folder / f"{_file_name(run.hook.name)}-{run.phase}.log" if self._folder else None
        )

    def keep(self, run: RunHook, result: str, output: str) -> None:
        """Replace the output of the last run; a failure is only logged."""
        path = self.path(run)
        if path is None:
            return
        head = f"# {result}\n".encode("utf-8", "replace")
        content = head + output.encode("utf-8", "replace")[-(KEPT_BYTES - len(head)) :]
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            system.write_file(path, content)
        except OSError as error:
            log.warning("cannot keep the output of hook %s in %s: %s", run.hook.name, path, error)


def _file_name(name: str) -> str:
    quoted = quote(name, safe=" ", errors="replace")
    if len(quoted) <= _NAME_CHARACTERS:
        return quoted
    import hashlib  # noqa: PLC0415  (OpenSSL takes 4 MiB, and few names are long)

    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
    return f"{quoted[:_NAME_CHARACTERS]}-{digest[:16]}"
