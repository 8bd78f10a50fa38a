"""A database of any encoding stores text, which is sent as UTF-8."""

from fairwarning.core.model import Ref, Scope, ScopeKind
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.store import Batch, Store
from tests.fixtures.postgres.database import database_or_skip
from tests.fixtures.postgres.server import shared
from tests.store.conftest import restart, run_scenario

KEY: Ref = (Scope, "a")
SCOPE = Scope(id="a", kind=ScopeKind.STANDALONE, version=1, group="größe")


def test_a_database_without_an_encoding_can_be_used() -> None:
    """`initdb` creates an SQL_ASCII database in the C locale; text is read as it was written."""
    url = database_or_skip()
    name = url.rpartition("/")[2]
    shared().drop(url)
    shared().execute("CREATE DATABASE {} TEMPLATE template0 ENCODING 'SQL_ASCII'", name)

    async def write_and_read(store: Store) -> None:
        await store.commit(Batch(1.0, {KEY: (None, SCOPE)}))
        await restart(store)
        assert await store.load([KEY]) == {KEY: SCOPE}

    run_scenario(PostgresStore(url), write_and_read)
    shared().drop(url)
