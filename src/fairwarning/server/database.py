"""A database named by its URL."""

from fairwarning.core.errors import Refused
from fairwarning.service.config.settings import ClusterSettings
from fairwarning.store.store import Store

_SCHEMES = ("postgresql://", "postgres://")


def is_database(data: str) -> bool:
    """Whether this names a database, and not a folder."""
    return data.startswith(_SCHEMES)


def store_at(url: str, cluster: ClusterSettings) -> Store:
    """The store there."""
    try:
        from fairwarning.store.postgres.store import PostgresStore  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError as error:
        text = "PostgreSQL needs an extra: pip install 'fairwarning[server,postgres]'"
        raise Refused("NoPostgreSQL", text) from error
    return PostgresStore(url, lease_seconds=cluster.lease_seconds)
