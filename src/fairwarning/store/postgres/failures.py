"""Fixed texts for failed connections.

libpq quotes what it does not understand. With an unescaped character in the URL, that is a part of
the password; otherwise it is the location of the database. Neither may appear in a text (IS3).
"""

BAD_URL = (
    "this is not a postgresql:// URL: write special characters in user name and password as %XX"
    " (% as %25, @ as %40, / as %2F), and check the names of the parameters"
)
_CHECK_URL = (
    "connection failed: check the URL with psql, and write special characters in user name and"
    " password as %XX (% as %25, @ as %40, / as %2F)"
)
_LOGIN = "connection denied: check user name, password and database"
_IN_USE = (
    "connection refused: all connections of the server are in use; raise its max_connections, or"
    " run fewer processes"
)
_RESTARTING = "connection refused: the server is starting or shutting down"
_NO_PRIMARY = "connection failed: no host in the URL accepts writes"

_REASONS = (  # parts of the texts of libpq, psycopg and the server, and what to say instead
    ("password authentication failed", _LOGIN),
    ("no password supplied", "connection denied: set PGPASSWORD or PGPASSFILE"),
    ("no pg_hba.conf entry", "connection denied by the server's pg_hba.conf"),
    ("pg_hba.conf rejects", "connection denied by the server's pg_hba.conf"),
    ("too many clients", _IN_USE),
    ("too many connections", _IN_USE),
    ("remaining connection slots", _IN_USE),
    ("is starting up", _RESTARTING),
    ("is shutting down", _RESTARTING),
    ("in recovery mode", _RESTARTING),
    ("not yet accepting connections", _RESTARTING),
    ("session is read-only", _NO_PRIMARY),
    ("in hot standby mode", _NO_PRIMARY),
    ("Connection refused", "connection refused: is the server running on that host and port?"),
    ("timeout expired", "connection timed out"),
    ("timed out", "connection timed out"),
    ("is unreachable", "connection failed: the network is unreachable"),
    ("No route to host", "connection failed: the network is unreachable"),
    ("No such file or directory", "connection failed: a file or socket in the URL does not exist"),
    ("certificate", "connection failed: TLS; check sslmode, sslrootcert and the certificates"),
    ("SSL", "connection failed: TLS; check sslmode, sslrootcert and the certificates"),
    ("does not exist", _LOGIN),
)
LOST = "connection lost"


def connection_failure(error: BaseException) -> str:
    """Return why a connection failed, in our own words."""
    text = str(error)
    return next((reason for part, reason in _REASONS if part in text), _CHECK_URL)
