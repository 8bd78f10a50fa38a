-- The schema of 1.0.0.
-- needs: 1
-- The tables for several processes. Bodies are JSON; the other columns are lookup keys. Names sort
-- by code point, as everywhere else in Fairwarning.

-- Scopes, scale sets, operations, rollouts, lanes, resources.
--   due         when the entity next changes because of the passing of time
--   changed     the position of its last write; every write has its own position
--   moved       for a scope, the position of the last write that changed its machines
--   ended_at    when an operation or a rollout ended
--   has_events  true for a scope that has events, else null
--   holder      the process that has claimed the due entity; see `process`
-- A removed entity keeps its row, without a body and at version -1, so that readers of the change
-- feed see the removal. A later entity of the same name reuses the row.
CREATE TABLE entity (
    number bigint GENERATED ALWAYS AS IDENTITY,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    due double precision,
    changed bigint NOT NULL,
    moved bigint NOT NULL,
    ended_at double precision,
    has_events boolean,
    holder text,
    body text,
    PRIMARY KEY (kind, id)
) WITH (fillfactor = 85);
CREATE INDEX entity_due ON entity (due, number) WHERE due IS NOT NULL;
CREATE UNIQUE INDEX entity_changed ON entity (changed) WHERE kind = 'Scope';
CREATE INDEX entity_with_events ON entity (id) WHERE has_events;
CREATE INDEX entity_ended ON entity (ended_at, kind, id) WHERE ended_at IS NOT NULL;
-- Finds removed entities in the order of their removal.
CREATE INDEX entity_removed ON entity (changed) WHERE body IS NULL;

-- The machines of scopes. Within a scope they are ordered by number.
CREATE TABLE machine (
    number bigint PRIMARY KEY,
    scope text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    address text COLLATE "C" NOT NULL,
    body text NOT NULL,
    UNIQUE (scope, name)
);
CREATE INDEX machine_of_scope ON machine (scope, number);
CREATE INDEX machine_name ON machine (name, scope);
CREATE UNIQUE INDEX machine_address ON machine (address) WHERE address <> '';

-- Impacts that started and are not settled, with the process that executes each.
CREATE TABLE impact (
    id text COLLATE "C" PRIMARY KEY,
    holder text NOT NULL,
    body text NOT NULL
);
CREATE INDEX impact_holder ON impact (holder);

-- The audit journal (IC7), partitioned by a million lines so that old partitions can be dropped.
-- `machines` and `announcement` are JSON, or empty.
CREATE TABLE journal (
    number bigint NOT NULL,
    at double precision NOT NULL,
    actor text NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    type text NOT NULL,
    event text COLLATE "C" NOT NULL,
    machines text NOT NULL,
    operation text COLLATE "C" NOT NULL,
    detail text NOT NULL,
    announcement text NOT NULL,
    PRIMARY KEY (number)
) PARTITION BY RANGE (number);
CREATE INDEX journal_entity ON journal (kind, id, number);
CREATE INDEX journal_event ON journal (event, number) WHERE event <> '';

-- Small named values outside the entities.
CREATE TABLE note (name text COLLATE "C" PRIMARY KEY, value text NOT NULL);

-- Running processes. Other processes take over what a process held once its lease has expired.
--   ended  whether it has stopped, instead of being lost
CREATE TABLE process (id text PRIMARY KEY, ended boolean NOT NULL DEFAULT false);

-- The leases of processes, in the shared time. Each renewal adds a row and removes the one before; see
-- `head` for the reason.
CREATE TABLE lease (
    process text NOT NULL,
    number bigint NOT NULL,
    until double precision NOT NULL,
    PRIMARY KEY (process, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- When scopes were last polled, if later than their bodies say. Apart from the entities, because a
-- poll decides nothing: it is recorded often, and read when a scope may be idle. Half of a page is
-- left free, so that a new time needs no new index entry.
CREATE TABLE poll (
    scope text PRIMARY KEY,
    at double precision NOT NULL
) WITH (fillfactor = 50);

-- Duties that only one process at a time performs.
CREATE TABLE duty (name text COLLATE "C" PRIMARY KEY, holder text NOT NULL);

-- The last position of the change feed, the last journal number and the last machine number. Numbers
-- become visible in order and without gaps: a reader that has seen number n has missed none before it.
-- Each commit adds a row and removes the one before, so that exactly one is visible. The newest is
-- found at the end of the index, however many old versions PostgreSQL has to keep for an old snapshot.
-- The row of an UPDATE would be searched for among all of them.
--   number  counts the commits that changed entities or added lines
--   due     no entity is due before; so a search does not pass the due times of earlier versions
CREATE TABLE head (
    number bigint PRIMARY KEY,
    position bigint NOT NULL,
    line bigint NOT NULL,
    machine bigint NOT NULL,
    due double precision NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
INSERT INTO head (number, position, line, machine, due) VALUES (0, 0, 0, 0, '-infinity');

-- Batches that were committed, or abandoned. After a lost connection a process adds the batch as
-- abandoned. If its row exists, the commit took place; else the row prevents it for ever.
--   at  when the row was added: old rows are dropped, whatever became of their process
CREATE TABLE batch (
    id uuid PRIMARY KEY,
    process text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    abandoned boolean NOT NULL DEFAULT false
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
