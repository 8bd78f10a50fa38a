"""Keys that all processes of a cluster share: in the database, and in files on each host."""

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path

from fairwarning.server.certificates import Authority
from fairwarning.service import keyfiles
from fairwarning.service.tokens import KEY_BYTES, signing_key
from fairwarning.store.store import Store

_SIGNING, _AUTHORITY = "signing.key", "ca.key"
_CERTIFICATES = ("ca.pem", "server.pem")


async def prepare(folder: Path, authority: Authority, store: Store, *, memory: bool) -> bytes:
    """Create the keys in the folder and return the one that signs tokens.

    With a shared store, use the keys of the cluster. A service in memory forgets which tokens were
    revoked when it ends, so it signs with a key that ends with it too.
    """
    if memory:
        await _run_to_end(authority.prepare)
        return secrets.token_bytes(KEY_BYTES)
    if store.shared:
        for name in (_SIGNING, _AUTHORITY):
            if shared_key := await store.get_note(_note(name)):
                _replace(folder / name, shared_key)
    signing_key(folder)
    await _run_to_end(authority.prepare)
    if store.shared:
        for name in (_SIGNING, _AUTHORITY):
            own = keyfiles.read(folder / name).decode("ascii")
            _replace(folder / name, await store.add_note_if_absent(_note(name), own))
        await _run_to_end(authority.prepare)
    return signing_key(folder)


async def _run_to_end(work: Callable[[], None]) -> None:
    """Run in a thread; if cancelled, wait for its end, so that it writes no file afterwards."""
    task = asyncio.create_task(asyncio.to_thread(work))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


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
