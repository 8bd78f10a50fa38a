"""Variables of the environment that name a service."""

URL = "FAIRWARNING_URL"
TOKEN = "FAIRWARNING_TOKEN"  # noqa: S105  (a name)
TOKEN_FILE = "FAIRWARNING_TOKEN_FILE"  # noqa: S105  (a name)
CA = "FAIRWARNING_CA"
CONTEXT = "FAIRWARNING_CONTEXT"
DATA = "FAIRWARNING_DATA"  # a folder; for `up`, also the URL of a database

_DATABASES = ("postgresql://", "postgres://")


def is_database(data: str) -> bool:
    """Return whether `data` is the URL of a database rather than a folder."""
    return data.startswith(_DATABASES)
