"""A primary and its synchronous standby: what is committed is on both."""

import shutil
import time
from types import TracebackType
from typing import Self

from tests.postgres import programs
from tests.postgres.server import Server

PATIENCE_SECONDS = 30.0
DATABASE = "fleet"


class Pair:
    """Two servers. `kill_primary`, `promote`, `rejoin`: the one that was killed is the standby."""

    def __init__(self) -> None:
        self.primary = Server()
        self.standby = Server()

    def __enter__(self) -> Self:
        self.primary.make()
        self.primary.create()
        self.primary.start()
        self.primary.execute("CREATE DATABASE {}", DATABASE)
        self.standby.make()
        self._join()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The standby first: a primary in good order waits for it.
        self.standby.remove()
        self.primary.remove()

    @property
    def url(self) -> str:
        """Both, of which clients take the one that can be written to."""
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in (self.primary, self.standby))
        return (
            f"postgresql://postgres@{hosts}/{DATABASE}"
            "?target_session_attrs=read-write&connect_timeout=2"
        )

    def kill_primary(self) -> None:
        """As kill -9 does. What was not on the standby by then was not acknowledged."""
        self.primary.kill()

    def promote(self) -> None:
        """The standby becomes the primary; it waits for no other, until one joins."""
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def rejoin(self) -> None:
        """The server that was killed comes back, empty, as the standby."""
        shutil.rmtree(self.standby.data)
        self._join()

    def _join(self) -> None:
        """Copy the primary, follow it, and only then let it wait for its standby."""
        source = f"{self.primary.url()}?application_name=standby"
        words = ("-d", source, "-D", "data", "-R", "-X", "stream", "-c", "fast", "--no-sync")
        programs.run(self.standby.folder, "pg_basebackup", *words)
        self.standby.start()
        self._following("streaming", "state")
        self.primary.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        self.primary.execute("SELECT pg_reload_conf()")
        self._following("sync", "sync_state")

    def _following(self, wanted: str, column: str) -> None:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while (wanted,) not in self.primary.execute("SELECT {} FROM pg_stat_replication", column):
            assert time.monotonic() < give_up, f"the standby is not {wanted}"
            time.sleep(0.02)
