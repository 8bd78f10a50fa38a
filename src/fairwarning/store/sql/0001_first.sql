-- What Fairwarning keeps. Bodies are JSON; the columns beside them are what things are found by.
--
-- An index entry at a random place costs a written page, and pages are what a commit costs. So
-- there are few indexes, and the journal has none: its lines are chained.

-- Scopes, scale sets, operations, rollouts, lanes.
--   due       when it changes by the passing of time alone
--   changed   its position in the change feed; scopes only
--   line      the newest line of the journal about it; 0 if there is none
--   previous  what `line` was before the last batch that wrote here
-- What is removed leaves its row behind, without a body and at version -1: whoever follows the feed
-- learns that a scope is gone, and the journal of what is gone can be read. An entity of the same
-- name that is made later takes the row over.
CREATE TABLE entity (
    number INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    due REAL,
    changed INTEGER,
    line INTEGER NOT NULL,
    previous INTEGER NOT NULL,
    body TEXT,
    UNIQUE (kind, id)
);
CREATE INDEX entity_due ON entity (due) WHERE due IS NOT NULL;
CREATE UNIQUE INDEX entity_changed ON entity (changed) WHERE changed IS NOT NULL;

-- The machines of scopes: rows of their own, so that a command on a large scope writes few of them.
-- Within a scope they are in order of number: a changed machine keeps its row, a new one is last.
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

-- Impacts begun and not settled.
CREATE TABLE impact (id TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;

-- The journal: who did what, when and why (IC7). `machines` and `announcement` are JSON, or
-- empty. `before` is the line before it about the same entity, so that
-- from entity.line on each line leads to the next older one.
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
    announcement TEXT NOT NULL
);

-- About which entities the lines are that tell of an event, and which is the first of them.
CREATE TABLE event (
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    entity TEXT NOT NULL,
    line INTEGER NOT NULL,
    PRIMARY KEY (id, kind, entity)
) WITHOUT ROWID;

-- Small values kept beside.
CREATE TABLE note (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- The last position of the change feed and the last number of the journal. Every batch moves the
-- position, so it also tells whether a batch is there whose commit failed in an unclear way.
CREATE TABLE head (position INTEGER NOT NULL, line INTEGER NOT NULL);
INSERT INTO head (position, line) VALUES (0, 0);
