"""`python -m tests.bench.old_snapshot [COMMITS]`: commits while an old snapshot is open.

PostgreSQL cannot remove old versions of rows that a transaction may still read. A commit must cost
the same all the same. The figures are the CPU time of the database's process, by tenths of the
commits: they do not depend on what else the machine does.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.fixtures.postgres.database import migrated_database_or_skip
from tests.fixtures.postgres.server import shared

COMMITS = 50_000
PARTS = 10
SETTINGS = ("jit", "enable_seqscan", "enable_hashjoin", "enable_mergejoin")
# Each commit creates a scope with a due time, and clears that of the scope before, as when events
# end one after the other.
COMMIT = """
DO $$
DECLARE
    last uuid;
    this uuid;
BEGIN
    FOR n IN {first}..{last} LOOP
        this := gen_random_uuid();
        PERFORM write_batch(
            'p', this, ARRAY[last],
            json_build_array(
                json_build_object('kind', 'Scope', 'id', 's' || n - 1,
                    'was', CASE WHEN n > 1 THEN 1 ELSE -1 END),
                json_build_object('kind', 'Scope', 'id', 's' || n, 'was', -1)), NULL,
            json_build_array(json_build_object('n', 1, 'kind', 'Scope', 'id', 's' || n - 1,
                'version', 2, 'due', NULL, 'moves', false, 'body', '{{}}')),
            CASE WHEN n > 1 THEN 1 ELSE 0 END,
            json_build_array(json_build_object('n', 2, 'kind', 'Scope', 'id', 's' || n,
                'version', 1, 'due', n, 'moves', true, 'body', '{{}}')),
            1,
            json_build_object('added', json_build_array(
                json_build_object('scope', 's', 'name', n, 'address', '', 'body', '{{}}'))),
            json_build_array(json_build_object('at', n, 'actor', 'a', 'kind', 'Scope',
                'id', 's' || n, 'type', 't', 'event', '', 'machines', '', 'operation', '',
                'detail', '', 'announcement', '')),
            1, NULL, NULL, NULL, false);
        COMMIT;
        last := this;
    END LOOP;
END $$
"""


def measure(url: str, commits: int) -> list[float]:
    """Return the microseconds of CPU per commit, for each tenth of the commits."""
    part = commits // PARTS
    figures = []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path TO fairwarning")
        for name in SETTINGS:
            connection.execute(f"SET {name} TO off".encode())
        for first in range(1, commits + 1, part):
            before = cpu_seconds(connection.info.backend_pid)
            connection.execute(COMMIT.format(first=first, last=first + part - 1).encode())
            figures.append((cpu_seconds(connection.info.backend_pid) - before) / part * 1e6)
    return figures


def cpu_seconds(process: int) -> float:
    """Return the CPU time that a process has used."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9


@contextmanager
def snapshot(url: str) -> Iterator[None]:
    """Keep a snapshot open, as a dump does."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM pg_class")
        yield


def main() -> None:
    """Measure with an old snapshot, then without."""
    commits = int(sys.argv[1]) if len(sys.argv) > 1 else COMMITS
    for name in ("an old snapshot", "no old snapshot"):
        url = migrated_database_or_skip()
        if name == "an old snapshot":
            with snapshot(url):
                figures = measure(url, commits)
        else:
            figures = measure(url, commits)
        text = " ".join(f"{figure:.0f}" for figure in figures)
        print(f"{name}: {text} µs of CPU per commit", flush=True)
        shared().drop(url)


if __name__ == "__main__":
    main()
