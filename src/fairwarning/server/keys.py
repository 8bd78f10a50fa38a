"""Keys that all processes of a cluster share: in the database, and in files on each host."""

import asyncio
from pathlib import Path

from fairwarning.arm.identity.certificates import Authority
from fairwarning.service import keyfiles
from fairwarning.service.tokens import signing_key
from fairwarning.store.store import Store

_SIGNING, _AUTHORITY = "signing.key", "ca.key"
_CERTIFICATES = ("ca.pem", "server.pem")


async def prepare(folder: Path, authority: Authority, store: Store) -> None:
    """Create the keys in the folder; with a shared store, use the keys of the cluster."""
    if store.shared:
        for name in (_SIGNING, _AUTHORITY):
            if shared_key := await store.get_note(_note(name)):
                _replace(folder / name, shared_key)
    signing_key(folder)
    await asyncio.to_thread(authority.prepare)
    if store.shared:
        for name in (_SIGNING, _AUTHORITY):
            own = keyfiles.read(folder / name).decode("ascii")
            _replace(folder / name, await store.add_note_if_absent(_note(name), own))
        await asyncio.to_thread(authority.prepare)


def _note(name: str) -> str:
    return f"key {name}"


def _replace(path: Path, content: str) -> None:
    """Replace a key file if it differs; with a new authority, remove the old certificates."""
    if keyfiles.check(path) and keyfiles.read(path) == content.encode("ascii"):
        return
    if path.name == _AUTHORITY:
        for name in _CERTIFICATES:
            path.with_name(name).unlink(missing_ok=True)
    keyfiles.write(path, content.encode("ascii"))
