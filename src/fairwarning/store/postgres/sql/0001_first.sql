-- needs: 1
-- What Fairwarning keeps, for several processes. Bodies are JSON; the columns beside them are what
-- things are found by. Names sort by code point, as everywhere else in Fairwarning.

-- Scopes, scale sets, operations, rollouts, lanes, resources.
--   due      when it changes by the passing of time alone
--   changed  the position at which it was last written: no two writes share one
--   moved    the same for its machines, as far as it is a scope: the last write that had any
--   holder   the process that sees to it that it is due; see `process`
-- What is removed leaves its row behind, without a body and at version -1, so that whoever follows
-- the feed learns of it. An entity of the same name that is made later takes the row over.
CREATE TABLE entity (
    number bigint GENERATED ALWAYS AS IDENTITY,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    due double precision,
    changed bigint NOT NULL,
    moved bigint NOT NULL,
    holder text,
    body text,
    PRIMARY KEY (kind, id)
) WITH (fillfactor = 85);
CREATE INDEX entity_due ON entity (due, number) WHERE due IS NOT NULL;
CREATE UNIQUE INDEX entity_changed ON entity (changed) WHERE kind = 'Scope';
CREATE INDEX entity_busy ON entity (id)
WHERE kind = 'Scope' AND position('"events":{"' IN body) > 0;

-- The machines of scopes. Within a scope they are in order of number.
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

-- Impacts begun and not settled, and the process that carries each out.
CREATE TABLE impact (
    id text COLLATE "C" PRIMARY KEY,
    holder text NOT NULL,
    body text NOT NULL
);
CREATE INDEX impact_holder ON impact (holder);

-- The journal: who did what, when and why (IC7). `machines` and `announcement` are JSON, or
-- empty. In parts of a million lines, so that old ones can be dropped.
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

-- Small values kept beside.
CREATE TABLE note (name text COLLATE "C" PRIMARY KEY, value text NOT NULL);

-- Processes that are alive. What one that is not holds is anybody's.
CREATE TABLE process (id text PRIMARY KEY, until timestamptz NOT NULL);

-- The last batch of each process, for one that lost its connection while it committed.
CREATE TABLE writer (process text PRIMARY KEY, batch text NOT NULL);

-- What else one process at a time looks after.
CREATE TABLE duty (name text COLLATE "C" PRIMARY KEY, holder text NOT NULL);

-- The last position of the change feed, the last numbers of the journal and of a machine. Whoever
-- commits holds this row to the end, so numbers are visible in their order, and without gaps:
-- who has seen number n has missed none before it.
CREATE TABLE head (position bigint NOT NULL, line bigint NOT NULL, machine bigint NOT NULL)
WITH (fillfactor = 10);
INSERT INTO head (position, line, machine) VALUES (0, 0, 0);

CREATE FUNCTION alive(holder text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT EXISTS (SELECT FROM process WHERE id = holder AND until > now())
$$;

-- The part of the journal that a line is in; made when there is none. Attaching a finished table
-- keeps neither readers nor writers out.
CREATE FUNCTION add_part(line bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    size constant bigint := 1000000;
    first constant bigint := line / size * size;
    name constant text := format('journal_%s', line / size);
BEGIN
    IF to_regclass(name) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE journal INCLUDING DEFAULTS)', name);
        EXECUTE format(
            'ALTER TABLE journal ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
            name, first, first + size
        );
    END IF;
END
$$;
SELECT add_part(0);

-- Drop the oldest part of the journal if all of it is older than that; how many lines it had. The
-- part that lines are added to stays.
CREATE FUNCTION drop_part(before double precision) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    part regclass;
    newest double precision;
    lines bigint;
BEGIN
    SELECT inhrelid::regclass INTO part FROM pg_inherits
    WHERE inhparent = 'journal'::regclass
    ORDER BY substring(inhrelid::regclass::text FROM '[0-9]+$')::bigint LIMIT 1;
    IF part = format('journal_%s', (SELECT line FROM head) / 1000000)::regclass THEN
        RETURN 0;
    END IF;
    EXECUTE format('SELECT at FROM %s ORDER BY number DESC LIMIT 1', part) INTO newest;
    IF newest >= before THEN
        RETURN 0;
    END IF;
    EXECUTE format('SELECT count(*) FROM %s', part) INTO lines;
    EXECUTE format('DROP TABLE %s', part);
    RETURN lines;
END
$$;

-- Commit a batch whole. It is one call, so that a process that stops in its middle holds no lock.
-- Raises FW001 where an entity is not at the version that was decided on; its message names it.
CREATE FUNCTION commit_batch(
    by_process text, given json, OUT base bigint, OUT next_due double precision
) LANGUAGE plpgsql AS $$
DECLARE
    entities constant json := given -> 'entities';
    machines constant json := given -> 'machines';
    lines constant json := given -> 'lines';
    before head%ROWTYPE;
    stale text;
BEGIN
    IF json_array_length(entities) + json_array_length(lines) > 0 THEN
        -- IK1: whoever decides on the same entities waits here, all in the same order.
        PERFORM FROM entity
        JOIN json_to_recordset(entities) AS new (kind text, id text) USING (kind, id)
        ORDER BY kind, id FOR UPDATE OF entity;
        SELECT * FROM head INTO before FOR UPDATE;
        SELECT old.kind || ' ' || old.id INTO stale
        FROM (
            SELECT * FROM json_to_recordset(entities) AS w (kind text, id text, was bigint)
            UNION ALL
            SELECT * FROM json_to_recordset(given -> 'read') AS r (kind text, id text, was bigint)
        ) AS old
        LEFT JOIN entity USING (kind, id)
        WHERE coalesce(entity.version, -1) <> old.was LIMIT 1;
        IF stale IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'FW001', MESSAGE = stale;
        END IF;
        UPDATE head SET
            position = head.position + json_array_length(entities),
            line = head.line + json_array_length(lines),
            machine = head.machine + json_array_length(machines -> 'fresh');

        INSERT INTO entity (kind, id, version, due, changed, moved, body)
        SELECT new.kind, new.id, new.version, new.due, before.position + new.n,
            CASE WHEN new.moves THEN before.position + new.n ELSE 0 END, new.body
        FROM ROWS FROM (
            json_to_recordset(entities)
            AS (kind text, id text, version bigint, due double precision, moves bool, body text)
        ) WITH ORDINALITY AS new (kind, id, version, due, moves, body, n)
        ON CONFLICT (kind, id) DO UPDATE SET
            version = excluded.version, due = excluded.due, changed = excluded.changed,
            moved = greatest(entity.moved, excluded.moved),
            holder = NULL, body = excluded.body;

        DELETE FROM machine
        USING json_to_recordset(machines -> 'gone') AS old (scope text, name text)
        WHERE machine.scope = old.scope AND machine.name = old.name;
        -- Before the new ones are written, so that machines may exchange theirs.
        UPDATE machine SET address = ''
        FROM json_to_recordset(machines -> 'freed') AS old (scope text, name text)
        WHERE machine.scope = old.scope AND machine.name = old.name;
        UPDATE machine SET address = new.address, body = new.body
        FROM json_to_recordset(machines -> 'changed')
        AS new (scope text, name text, address text, body text)
        WHERE machine.scope = new.scope AND machine.name = new.name;
        INSERT INTO machine (number, scope, name, address, body)
        SELECT before.machine + new.n, new.scope, new.name, new.address, new.body
        FROM ROWS FROM (
            json_to_recordset(machines -> 'fresh')
            AS (scope text, name text, address text, body text)
        ) WITH ORDINALITY AS new (scope, name, address, body, n);

        PERFORM add_part(before.line + json_array_length(lines));
        INSERT INTO journal
        SELECT before.line + new.n, new.at, new.actor, new.kind, new.id,
            new.type, new.event, new.machines, new.operation, new.detail, new.announcement
        FROM ROWS FROM (
            json_to_recordset(lines) AS (
                at double precision, actor text, kind text, id text,
                type text, event text, machines text, operation text, detail text,
                announcement text
            )
        ) WITH ORDINALITY
        AS new (
            at, actor, kind, id, type, event, machines, operation, detail, announcement, n
        );

        PERFORM pg_notify('fairwarning', '');
    END IF;

    INSERT INTO impact (id, holder, body)
    SELECT new.id, by_process, new.body
    FROM json_to_recordset(given -> 'impacts') AS new (id text, body text)
    ON CONFLICT (id) DO UPDATE SET body = excluded.body, holder = excluded.holder;
    DELETE FROM impact
    WHERE id IN (SELECT value FROM json_array_elements_text(given -> 'settled'));
    INSERT INTO note (name, value)
    SELECT key, value FROM json_each_text(given -> 'notes')
    ON CONFLICT (name) DO UPDATE SET value = excluded.value;
    INSERT INTO writer (process, batch) VALUES (by_process, given ->> 'batch')
    ON CONFLICT (process) DO UPDATE SET batch = excluded.batch;
    base := coalesce(before.position, 0);
    next_due := first_due(by_process);
END
$$;

-- The earliest due time, but for what another process that is alive sees to.
CREATE FUNCTION first_due(by_process text) RETURNS double precision STABLE LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT due FROM entity
        WHERE due IS NOT NULL
            AND (holder IS NULL OR holder = by_process OR NOT alive(holder))
        ORDER BY due, number LIMIT 1
    );
END
$$;
