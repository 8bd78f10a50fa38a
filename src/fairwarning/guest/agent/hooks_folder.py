"""The hooks folder: a subfolder for each phase, and each executable file in it is a hook (G10).

Only finds the files; `config` makes hooks of them. Backup copies that editors and dpkg leave behind
are no hooks, and neither is a file that may not be run: making a file not executable turns it off.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

from fairwarning.guest.events import Phase

PHASES = (Phase.SCHEDULED, Phase.STARTED, Phase.OVER)
_NUMBER = re.compile(r"[0-9]{1,6}")
_IGNORED = re.compile(r"^\.|~$|\.bak$|\.dpkg-[a-z]+$")

logger = logging.getLogger(__name__)


def find_hooks(folder: Path) -> Iterator[tuple[str, Phase, Path, int]]:
    """Yield name, phase, program and order of each hook; a missing folder has none.

    The order is the number that a file's name begins with, as in `10-drain`.
    """
    if not folder.exists():
        logger.warning("hooks folder %s does not exist; it counts as empty", folder)
    for phase in PHASES:
        for path in _files(folder / phase.value):
            if os.access(path, os.X_OK):
                number = _NUMBER.match(path.name)
                yield f"{phase}/{path.name}", phase, path, int(number[0]) if number else 0
            else:
                logger.warning("skipped %s: not executable; chmod +x makes it a hook", path)


def _files(folder: Path) -> list[Path]:
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    return [path for path in paths if path.is_file() and not _IGNORED.search(path.name)]
