"""Keys that every process of a cluster has: kept in the database, and in files beside each."""

import asyncio
from pathlib import Path

from fairwarning.arm.identity.certificates import Authority
from fairwarning.service import keyfiles
from fairwarning.service.tokens import signing_key
from fairwarning.store.store import Store

_SIGNING, _AUTHORITY = "signing.key", "ca.key"
_OF_THE_AUTHORITY = ("ca.pem", "server.pem")


async def prepare(folder: Path, authority: Authority, store: Store) -> None:
    """Have all keys in the folder; with others at work, the same as theirs."""
    if store.shared:
        for name in (_SIGNING, _AUTHORITY):
            if kept := await store.get_note(_note(name)):
                _take(folder / name, kept)
    signing_key(folder)
    await asyncio.to_thread(authority.prepare)
    if store.shared:
        for name in (_SIGNING, _AUTHORITY):
            own = keyfiles.read(folder / name).decode("ascii")
            _take(folder / name, await store.add_note_if_absent(_note(name), own))
        await asyncio.to_thread(authority.prepare)


def _note(name: str) -> str:
    return f"key {name}"


def _take(path: Path, content: str) -> None:
    """Put it in the place of another; a new authority's certificates are made anew."""
    if keyfiles.check(path) and keyfiles.read(path) == content.encode("ascii"):
        return
    if path.name == _AUTHORITY:
        for name in _OF_THE_AUTHORITY:
            path.with_name(name).unlink(missing_ok=True)
    keyfiles.write(path, content.encode("ascii"))
