"""The store in a database, given by its URL."""

from fairwarning.core.errors import Refused
from fairwarning.service.config.settings import ClusterSettings
from fairwarning.store.store import Store


def store_at(url: str, cluster: ClusterSettings) -> Store:
    """Return the store in the database at `url`."""
    try:
        from fairwarning.store.postgres.store import PostgresStore  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError as error:
        text = "PostgreSQL support is not installed: pip install 'fairwarning[server,postgres]'"
        raise Refused("NoPostgreSQL", text) from error
    return PostgresStore(url, lease_seconds=cluster.lease_seconds)
