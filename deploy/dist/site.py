"""The documentation site, built away from the checkout."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.agent.contents import ROOT
from deploy.dist.archive import files_below


@contextmanager
def built_site() -> Iterator[dict[str, Path]]:
    """Build the site without warnings; provide its files by path."""
    with TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "docs", Path(folder) / "docs")
        shutil.copy(ROOT / "mkdocs.yml", folder)
        command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
        subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
        site = Path(folder) / "site"
        yield files_below(site, site)
