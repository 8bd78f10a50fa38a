-- needs: 1
-- The text of a batch is read as few times as possible: its bodies are most of what a commit costs.
--   keys  the kind, id and expected version of each entity in `entities`

-- Commit a batch in a single call, so that a process suspended during a commit holds no lock.
-- Raises FW001 if an entity's version differs from the expected one; the message names the entity.
CREATE OR REPLACE FUNCTION commit_batch(
    by_process text, payload json, OUT base bigint, OUT next_due double precision
) LANGUAGE plpgsql AS $$
DECLARE
    parts record;
    keys json;
    entities integer;
    lines integer;
    before head%ROWTYPE;
    stale text;
    earliest double precision;
BEGIN
    -- Every other way to reach a member, such as `->`, would read the whole text again.
    SELECT * INTO parts FROM json_to_record(payload) AS part (
        batch text, finished json, keys json, entities json, read json, machines json, lines json,
        impacts json, settled json, notes text
    );
    keys := coalesce(parts.keys, parts.entities);  -- a process of an older version sends no keys
    entities := json_array_length(keys);
    lines := json_array_length(parts.lines);

    -- First of all, before waiting for any lock: `abandon_batch` then waits for this transaction.
    IF parts.finished IS NOT NULL THEN
        INSERT INTO batch (id, process) VALUES (parts.batch::uuid, by_process);
        DELETE FROM batch
        WHERE id = ANY(ARRAY(SELECT json_array_elements_text(parts.finished))::uuid []);
    END IF;
    IF entities + lines > 0 THEN
        -- IK1: commits of the same entities wait here; all take the locks in the same order.
        PERFORM FROM entity
        JOIN json_to_recordset(keys) AS new (kind text, id text) USING (kind, id)
        ORDER BY kind, id FOR UPDATE OF entity;
        PERFORM pg_advisory_xact_lock(1180789106, 1);  -- until the end of the commit
        SELECT * FROM head INTO before ORDER BY number DESC LIMIT 1;
        SELECT old.kind || ' ' || old.id INTO stale
        FROM (
            SELECT * FROM json_to_recordset(keys) AS w (kind text, id text, was bigint)
            UNION ALL
            SELECT * FROM json_to_recordset(parts.read) AS r (kind text, id text, was bigint)
        ) AS old
        LEFT JOIN entity USING (kind, id)
        WHERE coalesce(entity.version, -1) <> old.was LIMIT 1;
        IF stale IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'FW001', MESSAGE = stale;
        END IF;
        WITH written AS (
            INSERT INTO entity (kind, id, version, due, changed, moved, body)
            SELECT new.kind, new.id, new.version, new.due, before.position + new.n,
                CASE WHEN new.moves THEN before.position + new.n ELSE 0 END, new.body
            FROM ROWS FROM (
                json_to_recordset(parts.entities)
                AS (kind text, id text, version bigint, due double precision, moves bool, body text)
            ) WITH ORDINALITY AS new (kind, id, version, due, moves, body, n)
            ON CONFLICT (kind, id) DO UPDATE SET
                version = excluded.version, due = excluded.due, changed = excluded.changed,
                moved = greatest(entity.moved, excluded.moved),
                holder = NULL, body = excluded.body
            RETURNING due
        )
        SELECT least(before.due, min(due)) INTO earliest FROM written;

        -- A statement costs as much as all of these comparisons, also if it changes nothing.
        IF json_array_length(parts.machines -> 'removed') > 0 THEN
            DELETE FROM machine
            USING json_to_recordset(parts.machines -> 'removed') AS old (scope text, name text)
            WHERE machine.scope = old.scope AND machine.name = old.name;
        END IF;
        -- Clear old addresses before setting new ones, so that machines can swap addresses.
        IF json_array_length(parts.machines -> 'freed') > 0 THEN
            UPDATE machine SET address = ''
            FROM json_to_recordset(parts.machines -> 'freed') AS old (scope text, name text)
            WHERE machine.scope = old.scope AND machine.name = old.name;
        END IF;
        IF json_array_length(parts.machines -> 'changed') > 0 THEN
            UPDATE machine SET address = new.address, body = new.body
            FROM json_to_recordset(parts.machines -> 'changed')
            AS new (scope text, name text, address text, body text)
            WHERE machine.scope = new.scope AND machine.name = new.name;
        END IF;
        IF json_array_length(parts.machines -> 'added') > 0 THEN
            INSERT INTO machine (number, scope, name, address, body)
            SELECT before.machine + new.n, new.scope, new.name, new.address, new.body
            FROM ROWS FROM (
                json_to_recordset(parts.machines -> 'added')
                AS (scope text, name text, address text, body text)
            ) WITH ORDINALITY AS new (scope, name, address, body, n);
        END IF;

        PERFORM add_partition(before.line + lines);
        INSERT INTO journal
        SELECT before.line + new.n, new.at, new.actor, new.kind, new.id,
            new.type, new.event, new.machines, new.operation, new.detail, new.announcement
        FROM ROWS FROM (
            json_to_recordset(parts.lines) AS (
                at double precision, actor text, kind text, id text,
                type text, event text, machines text, operation text, detail text,
                announcement text
            )
        ) WITH ORDINALITY
        AS new (
            at, actor, kind, id, type, event, machines, operation, detail, announcement, n
        );

        INSERT INTO head (number, position, line, machine, due)
        VALUES (
            before.number + 1,
            before.position + entities,
            before.line + lines,
            before.machine + json_array_length(parts.machines -> 'added'),
            coalesce(
                (SELECT due FROM entity WHERE due >= earliest ORDER BY due LIMIT 1), 'infinity'
            )
        );
        DELETE FROM head WHERE number = before.number;

        PERFORM pg_notify('fairwarning', '');
    END IF;

    IF json_array_length(parts.impacts) > 0 THEN
        INSERT INTO impact (id, holder, body)
        SELECT new.id, by_process, new.body
        FROM json_to_recordset(parts.impacts) AS new (id text, body text)
        ON CONFLICT (id) DO UPDATE SET body = excluded.body, holder = excluded.holder;
    END IF;
    IF json_array_length(parts.settled) > 0 THEN
        DELETE FROM impact WHERE id IN (SELECT value FROM json_array_elements_text(parts.settled));
    END IF;
    IF parts.notes <> '{}' THEN
        INSERT INTO note (name, value)
        SELECT key, value FROM json_each_text(parts.notes::json)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value;
    END IF;
    IF parts.finished IS NULL THEN  -- a process of an older version
        INSERT INTO writer (process, batch) VALUES (by_process, parts.batch)
        ON CONFLICT (process) DO UPDATE SET batch = excluded.batch;
    END IF;
    base := coalesce(before.position, 0);
    next_due := first_due(by_process);
END
$$;
