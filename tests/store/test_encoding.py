"""A database of any encoding holds text; the text is UTF-8 on the wire."""

from fairwarning.core.model import Ref, Scope, ScopeKind
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.store import Batch, Store
from tests.fixtures.postgres.database import database_or_skip
from tests.fixtures.postgres.server import shared
from tests.store.conftest import play, restart

KEY: Ref = (Scope, "a")
SCOPE = Scope(id="a", kind=ScopeKind.STANDALONE, version=1, group="größe")


def test_a_database_without_an_encoding_is_opened_again() -> None:
    """`initdb` makes an SQL_ASCII database where the locale is C; it is read as it was written."""
    url = database_or_skip()
    name = url.rpartition("/")[2]
    shared().drop(url)
    shared().execute("CREATE DATABASE {} TEMPLATE template0 ENCODING 'SQL_ASCII'", name)

    async def write_and_read(store: Store) -> None:
        await store.commit(Batch(1.0, {KEY: (None, SCOPE)}))
        await restart(store)
        assert await store.load([KEY]) == {KEY: SCOPE}

    play(PostgresStore(url), write_and_read)
    shared().drop(url)
