-- needs: 1
-- Batches that were committed, or abandoned. After a lost connection a process adds the batch as
-- abandoned. If its row exists, the commit took place; else the row prevents it for ever.
--   at  when the row was added: old rows are dropped, whatever became of their process
CREATE TABLE batch (
    id uuid PRIMARY KEY,
    process text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    abandoned boolean NOT NULL DEFAULT false
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Each commit adds a row to `head` and removes the one before, so that exactly one is visible. The
-- newest is found at the end of the index, however many old versions PostgreSQL has to keep for an
-- old snapshot. The row of an UPDATE would be searched for among all of them.
--   number  counts the commits that changed entities or added lines
--   due     no entity is due before; so a search does not pass the due times of earlier versions
ALTER TABLE head ADD COLUMN number bigint NOT NULL DEFAULT 0 PRIMARY KEY;
ALTER TABLE head ADD COLUMN due double precision NOT NULL DEFAULT '-infinity';
ALTER TABLE head RESET (fillfactor);
ALTER TABLE head SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Commit a batch in a single call, so that a process suspended during a commit holds no lock.
-- Raises FW001 if an entity's version differs from the expected one; the message names the entity.
CREATE OR REPLACE FUNCTION commit_batch(
    by_process text, payload json, OUT base bigint, OUT next_due double precision
) LANGUAGE plpgsql AS $$
DECLARE
    entities constant json := payload -> 'entities';
    machines constant json := payload -> 'machines';
    lines constant json := payload -> 'lines';
    impacts constant json := payload -> 'impacts';
    settled constant json := payload -> 'settled';
    notes constant text := payload ->> 'notes';
    before head%ROWTYPE;
    stale text;
    earliest double precision;
BEGIN
    -- First of all, before waiting for any lock: `abandon_batch` then waits for this transaction.
    IF payload -> 'finished' IS NOT NULL THEN
        INSERT INTO batch (id, process) VALUES ((payload ->> 'batch')::uuid, by_process);
        DELETE FROM batch
        WHERE id = ANY(ARRAY(SELECT json_array_elements_text(payload -> 'finished'))::uuid []);
    END IF;
    IF json_array_length(entities) + json_array_length(lines) > 0 THEN
        -- IK1: commits of the same entities wait here; all take the locks in the same order.
        PERFORM FROM entity
        JOIN json_to_recordset(entities) AS new (kind text, id text) USING (kind, id)
        ORDER BY kind, id FOR UPDATE OF entity;
        PERFORM pg_advisory_xact_lock(1180789106, 1);  -- until the end of the commit
        SELECT * FROM head INTO before ORDER BY number DESC LIMIT 1;
        SELECT old.kind || ' ' || old.id INTO stale
        FROM (
            SELECT * FROM json_to_recordset(entities) AS w (kind text, id text, was bigint)
            UNION ALL
            SELECT * FROM json_to_recordset(payload -> 'read') AS r (kind text, id text, was bigint)
        ) AS old
        LEFT JOIN entity USING (kind, id)
        WHERE coalesce(entity.version, -1) <> old.was LIMIT 1;
        IF stale IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'FW001', MESSAGE = stale;
        END IF;
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

        -- A statement costs as much as all of these comparisons, also if it changes nothing.
        IF json_array_length(machines -> 'removed') > 0 THEN
            DELETE FROM machine
            USING json_to_recordset(machines -> 'removed') AS old (scope text, name text)
            WHERE machine.scope = old.scope AND machine.name = old.name;
        END IF;
        -- Clear old addresses before setting new ones, so that machines can swap addresses.
        IF json_array_length(machines -> 'freed') > 0 THEN
            UPDATE machine SET address = ''
            FROM json_to_recordset(machines -> 'freed') AS old (scope text, name text)
            WHERE machine.scope = old.scope AND machine.name = old.name;
        END IF;
        IF json_array_length(machines -> 'changed') > 0 THEN
            UPDATE machine SET address = new.address, body = new.body
            FROM json_to_recordset(machines -> 'changed')
            AS new (scope text, name text, address text, body text)
            WHERE machine.scope = new.scope AND machine.name = new.name;
        END IF;
        IF json_array_length(machines -> 'added') > 0 THEN
            INSERT INTO machine (number, scope, name, address, body)
            SELECT before.machine + new.n, new.scope, new.name, new.address, new.body
            FROM ROWS FROM (
                json_to_recordset(machines -> 'added')
                AS (scope text, name text, address text, body text)
            ) WITH ORDINALITY AS new (scope, name, address, body, n);
        END IF;

        PERFORM add_partition(before.line + json_array_length(lines));
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

        SELECT least(before.due, min(new.due)) INTO earliest
        FROM json_to_recordset(entities) AS new (due double precision);
        INSERT INTO head (number, position, line, machine, due)
        VALUES (
            before.number + 1,
            before.position + json_array_length(entities),
            before.line + json_array_length(lines),
            before.machine + json_array_length(machines -> 'added'),
            coalesce(
                (SELECT due FROM entity WHERE due >= earliest ORDER BY due LIMIT 1), 'infinity'
            )
        );
        DELETE FROM head WHERE number = before.number;

        PERFORM pg_notify('fairwarning', '');
    END IF;

    IF json_array_length(impacts) > 0 THEN
        INSERT INTO impact (id, holder, body)
        SELECT new.id, by_process, new.body
        FROM json_to_recordset(impacts) AS new (id text, body text)
        ON CONFLICT (id) DO UPDATE SET body = excluded.body, holder = excluded.holder;
    END IF;
    IF json_array_length(settled) > 0 THEN
        DELETE FROM impact WHERE id IN (SELECT value FROM json_array_elements_text(settled));
    END IF;
    IF notes <> '{}' THEN
        INSERT INTO note (name, value)
        SELECT key, value FROM json_each_text(notes::json)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value;
    END IF;
    IF payload -> 'finished' IS NULL THEN  -- a process of an older version
        INSERT INTO writer (process, batch) VALUES (by_process, payload ->> 'batch')
        ON CONFLICT (process) DO UPDATE SET batch = excluded.batch;
    END IF;
    base := coalesce(before.position, 0);
    next_due := first_due(by_process);
END
$$;

-- The earliest due time, ignoring entities that another running process has claimed.
CREATE OR REPLACE FUNCTION first_due(by_process text) RETURNS double precision
STABLE LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT due FROM entity
        WHERE due >= (SELECT head.due FROM head ORDER BY number DESC LIMIT 1)
            AND (holder IS NULL OR holder = by_process OR NOT alive(holder))
        ORDER BY due, number LIMIT 1
    );
END
$$;
