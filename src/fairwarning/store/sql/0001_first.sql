-- The schema of 1.0.0.
-- The SQLite schema. Bodies are JSON; the other columns are lookup keys.
--
-- Written pages dominate the cost of a commit, and an index entry at a random place costs a page.
-- So there are few indexes, and the journal has none here: its lines form chains.

-- Scopes, scale sets, operations, rollouts, lanes.
--   due         when the entity next changes because of the passing of time
--   changed     its position in the change feed; scopes only
--   ended_at    when an operation or a rollout ended
--   has_events  1 for a scope that has events, else null
--   line        number of the newest journal line about it; 0 if there is none
--   previous    the value of `line` before the last batch that wrote this row
-- A removed entity keeps its row, without a body and at version -1, so that readers of the change
-- feed see the removal and its journal lines stay reachable. A later entity of the same name
-- reuses the row.
CREATE TABLE entity (
    number INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    due REAL,
    changed INTEGER,
    ended_at REAL,
    has_events INTEGER,
    line INTEGER NOT NULL,
    previous INTEGER NOT NULL,
    body TEXT,
    UNIQUE (kind, id)
);
CREATE INDEX entity_due ON entity (due) WHERE due IS NOT NULL;
CREATE UNIQUE INDEX entity_changed ON entity (changed) WHERE changed IS NOT NULL;
CREATE INDEX entity_ended ON entity (ended_at, kind, id) WHERE ended_at IS NOT NULL;
CREATE INDEX entity_with_events ON entity (id) WHERE has_events = 1;
-- Finds removed entities whose journal lines are all gone.
CREATE INDEX entity_removed ON entity (line) WHERE body IS NULL;

-- The machines of scopes, in separate rows, so that a command on a large scope writes few of them.
-- Within a scope they are ordered by number: a changed machine keeps its row, a new one is last.
CREATE TABLE machine (
    number INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    address TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (scope, name)
);
CREATE INDEX machine_name ON machine (name);
CREATE UNIQUE INDEX machine_address ON machine (address) WHERE address <> '';

-- Impacts that started and are not settled.
CREATE TABLE impact (id TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;

-- The audit journal (IC7). `machines` and `announcement` are JSON, or empty.
--   before      the number of the previous line about the same entity, so that entity.line starts a
--               chain from the newest line to the oldest
--   first_line  the number of its event's first line, if it is about an event. Events that are
--               announced together have neighbouring first lines, so a batch that continues many of
--               them writes few pages of the index; the ids of events are random.
CREATE TABLE journal (
    number INTEGER PRIMARY KEY,
    before INTEGER NOT NULL,
    at REAL NOT NULL,
    actor TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    type TEXT NOT NULL,
    event TEXT NOT NULL,
    machines TEXT NOT NULL,
    operation TEXT NOT NULL,
    detail TEXT NOT NULL,
    announcement TEXT NOT NULL,
    first_line INTEGER NOT NULL
);
CREATE INDEX journal_first_line ON journal (first_line, number) WHERE first_line > 0;

-- The entities that an event's lines are about, with the number of the first line of each.
CREATE TABLE event (
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    entity TEXT NOT NULL,
    line INTEGER NOT NULL,
    PRIMARY KEY (id, kind, entity)
) WITHOUT ROWID;

-- Small named values outside the entities.
CREATE TABLE note (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- When scopes were last polled, if later than their bodies say. Apart from the entities, because a
-- poll decides nothing: it is recorded often, and read when a scope may be idle.
CREATE TABLE poll (scope TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;

-- The last position of the change feed, the last journal number and the last machine number. Every
-- batch advances the position, so it also shows whether a batch was stored whose commit had an
-- unclear outcome. A machine's loopback address is derived from its number (M22), so numbers are
-- never reused.
CREATE TABLE head (position INTEGER NOT NULL, line INTEGER NOT NULL, machine INTEGER NOT NULL);
INSERT INTO head (position, line, machine) VALUES (0, 0, 0);
