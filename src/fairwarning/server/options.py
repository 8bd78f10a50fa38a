"""What a process runs, and on which addresses."""

from dataclasses import field
from pathlib import Path

from fairwarning.core import limits
from fairwarning.core.errors import Refused
from fairwarning.core.record import changed, short_record
from fairwarning.metadata.listeners import PortRange, is_loopback
from fairwarning.service.config.fleet_file import FleetFile
from fairwarning.service.config.settings import ClusterSettings, MetadataSettings
from fairwarning.store.store import Store

Address = tuple[str, int]


@short_record
class ServerOptions:
    """The options of `up`."""

    data: Path
    fleet: FleetFile
    database: str = field(default="", repr=False)
    """A postgresql:// URL; `data` then holds only files of this host."""
    memory: bool = False
    metadata: Address = ("127.0.0.1", 8169)
    console: Address = ("127.0.0.1", 8170)
    arm: Address = ("127.0.0.1", 8171)
    machine_ports: PortRange | None = None  # None: only if machines have no other address
    default_machine: str = ""  # that unknown callers are answered as
    virtual: bool = False
    sockets: Path | None = None  # folder for one Unix socket per machine
    network_folder: bool = False  # whether `data` may be on a network file system
    key: str = field(default="", repr=False)  # access key of the page; all workers share one
    worker: bool = False  # whether other processes listen on the same ports

    def store(self) -> Store:
        """Return the store, not yet open."""
        if self.memory:
            from fairwarning.store.memory import MemoryStore  # noqa: PLC0415  (not needed with files)

            return MemoryStore()
        if self.database:
            return store_at(self.database, self.fleet.cluster)
        from fairwarning.store.sqlite import SQLiteStore  # noqa: PLC0415  (not needed with --memory)

        return SQLiteStore(self.data / "fleet.db")

    def metadata_settings(self) -> MetadataSettings:
        """Return the settings of the metadata endpoint, with Azure's rate limit in a host run."""
        settings = self.fleet.endpoint
        if self.default_machine:
            settings = changed(settings, default_machine=self.default_machine)
        if settings.requests_per_second is None and not is_loopback(self.metadata[0]):
            return changed(settings, requests_per_second=limits.REQUESTS_PER_SECOND)  # M17
        return settings


def store_at(url: str, cluster: ClusterSettings) -> Store:
    """Return the store in the database at `url`."""
    try:
        from fairwarning.store.postgres.store import PostgresStore  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError as error:
        text = "PostgreSQL support is not installed: pip install 'fairwarning[server,postgres]'"
        raise Refused("NoPostgreSQL", text) from error
    return PostgresStore(url, lease_seconds=cluster.lease_seconds)
