"""`timeout`, which asyncio has since Python 3.11; the guest side runs on 3.9 (G10)."""

from __future__ import annotations

import asyncio
import sys

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:

    class timeout:  # noqa: N801  (the name in the standard library)
        """Cancel what runs inside after some seconds, and raise `TimeoutError`."""

        def __init__(self, seconds: float) -> None:
            self._seconds = seconds
            self._expired = False

        async def __aenter__(self) -> None:
            self._task = asyncio.current_task()
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._expire)

        def _expire(self) -> None:
            self._expired = True
            self._task.cancel()

        async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
            self._timer.cancel()
            if self._expired and kind is asyncio.CancelledError:
                raise TimeoutError(f"not done within {self._seconds:g} s")


__all__ = ["timeout"]
