"""Build fairwarning-agent.pyz: the agent as one file that needs only Python (G10).

The same sources give the same bytes on every machine: sorted, not compressed, and with one time.
"""

import time
from collections.abc import Mapping
from io import BytesIO
from zipfile import ZipFile, ZipInfo

_SHEBANG = b"#!/usr/bin/env python3\n"
# An older Python has to be able to read this much.
_MAIN = b"""\
import sys

if sys.version_info < (3, 9):
    version = sys.version.split()[0]
    sys.exit("fairwarning-agent needs Python 3.9 or newer; this is Python " + version)

from fairwarning.cli.main import agent_main

agent_main()
"""
_UNIX = 3
_MODE = 0o100644 << 16
_EARLIEST = 315532800  # 1980, where the time of a zip file begins


def build_pyz(files: Mapping[str, bytes], epoch: int) -> bytes:
    """Return the program; `epoch` is the time of its files, in seconds since 1970."""
    buffer = BytesIO()
    buffer.write(_SHEBANG)
    date = time.gmtime(max(epoch, _EARLIEST))[:6]
    with ZipFile(buffer, "w") as archive:
        for name, content in sorted({**files, "__main__.py": _MAIN}.items()):
            entry = ZipInfo(name, date)
            entry.create_system, entry.external_attr = _UNIX, _MODE
            archive.writestr(entry, content)
    return buffer.getvalue()
