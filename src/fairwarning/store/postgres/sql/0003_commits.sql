-- needs: 1
-- Commits of several processes work at the same time and end one after the other. A commit reserves
-- its numbers, writes its rows, and waits for the end of the commit that reserved before it. So only
-- its last step is serial: the row of `head`, and the flush. Journal and change feed are numbered
-- without gaps and become visible in order.
--
-- Nothing depends on the reservations being right. A commit ends only if its numbers follow those
-- in `head`, and the key of `head` admits one successor of each row. If a commit fails after it has
-- reserved, or the server crashes, then the numbers of later commits do not follow. They fail with
-- FW002, or because a number is in use, and are repeated alone, with numbers that begin where `head`
-- ends.
--
-- Advisory locks, all until the end of the transaction:
--   (1180789106, 1)  shared by commits; exclusive for one that is alone
--   (1180789106, 2)  while numbers are reserved
--   (1180789106, 3)  while a journal partition is created
--   (1180789106, 4)  while the shared time is read and moved on
--   (1180789107, n)  by transaction n (its last 31 bits), for its successor to wait for

-- The last reserved numbers, and the transaction that has reserved them. A sequence, as other
-- transactions see its value at once.
CREATE SEQUENCE reserved_position MINVALUE 0 START 0;
CREATE SEQUENCE reserved_line MINVALUE 0 START 0;
CREATE SEQUENCE reserved_machine MINVALUE 0 START 0;
CREATE SEQUENCE reserved_by MINVALUE 0 START 0;
SELECT setval('reserved_position', 0), setval('reserved_line', 0), setval('reserved_machine', 0);

-- Let a commit go to work: reserve numbers, and return those before the first and the transaction
-- that reserved before. Afterwards a commit may only wait for its predecessors, as they do not wait
-- for it. So it has locked its entities before, and what it needs beyond them now or soon: the
-- journal, whose partitions may be dropped at any time, and its next partition.
CREATE FUNCTION reserve_numbers(
    positions bigint, lines bigint, machines bigint, alone boolean,
    OUT last_position bigint, OUT last_line bigint, OUT last_machine bigint,
    OUT predecessor integer
) LANGUAGE plpgsql AS $$
DECLARE
    ahead constant bigint := 100000;  -- lines; more than commits at work add together
    this constant integer := pg_current_xact_id()::text::bigint & 2147483647;
BEGIN
    IF alone THEN
        SELECT position, line, machine INTO last_position, last_line, last_machine
        FROM head ORDER BY number DESC LIMIT 1;
        PERFORM
            setval('reserved_position', last_position), setval('reserved_line', last_line),
            setval('reserved_machine', last_machine);
    END IF;
    PERFORM add_partition(last_value + lines + ahead) FROM reserved_line;
    LOCK TABLE ONLY journal IN ROW EXCLUSIVE MODE;
    PERFORM pg_advisory_xact_lock(1180789107, this);
    BEGIN
        PERFORM pg_advisory_xact_lock(1180789106, 2);
        SELECT p.last_value, l.last_value, m.last_value, b.last_value
        INTO last_position, last_line, last_machine, predecessor
        FROM reserved_position AS p, reserved_line AS l, reserved_machine AS m, reserved_by AS b;
        PERFORM
            setval('reserved_position', last_position + positions),
            setval('reserved_line', last_line + lines),
            setval('reserved_machine', last_machine + machines),
            setval('reserved_by', this);
        -- Rolling back releases the lock now instead of at the end. Sequences keep their values.
        RAISE EXCEPTION USING ERRCODE = 'FW003';
    EXCEPTION WHEN SQLSTATE 'FW003' THEN
        NULL;
    END;
    PERFORM add_partition(last_line + lines);
END
$$;

-- Write the machines of a batch. The numbers of added ones begin after `last_number`.
CREATE FUNCTION write_machines(machines json, last_number bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
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
        SELECT last_number + new.n, new.scope, new.name, new.address, new.body
        FROM ROWS FROM (
            json_to_recordset(machines -> 'added')
            AS (scope text, name text, address text, body text)
        ) WITH ORDINALITY AS new (scope, name, address, body, n);
    END IF;
END
$$;

-- Return one of these entities whose version differs from the expected one.
CREATE FUNCTION stale_entity(keys json) RETURNS text STABLE STRICT LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT key.kind || ' ' || key.id
        FROM json_to_recordset(keys) AS key (kind text, id text, was bigint)
        LEFT JOIN entity ON entity.kind = key.kind AND entity.id = key.id
        WHERE coalesce(entity.version, -1) <> key.was LIMIT 1
    );
END
$$;

-- Write the entities of a batch; return how many were written and the earliest due time. A new
-- entity is not written if it exists.
CREATE FUNCTION write_entities(
    updates json, inserts json, last_position bigint,
    OUT written bigint, OUT earliest double precision
) LANGUAGE plpgsql AS $$
BEGIN
    WITH updated AS (
        UPDATE entity SET
            version = new.version, due = new.due, changed = last_position + new.n,
            moved = CASE WHEN new.moves THEN last_position + new.n ELSE entity.moved END,
            ended_at = new.ended_at, has_events = new.has_events,
            holder = NULL, body = new.body
        FROM json_to_recordset(updates) AS new (
            n bigint, kind text, id text, version bigint, due double precision, moves bool,
            ended_at double precision, has_events bool, body text
        )
        WHERE entity.kind = new.kind AND entity.id = new.id
        RETURNING entity.due
    ),
    inserted AS (
        INSERT INTO entity (
            kind, id, version, due, changed, moved, ended_at, has_events, body
        )
        SELECT new.kind, new.id, new.version, new.due, last_position + new.n,
            CASE WHEN new.moves THEN last_position + new.n ELSE 0 END,
            new.ended_at, new.has_events, new.body
        FROM json_to_recordset(inserts) AS new (
            n bigint, kind text, id text, version bigint, due double precision, moves bool,
            ended_at double precision, has_events bool, body text
        )
        ON CONFLICT (kind, id) DO UPDATE SET
            version = excluded.version, due = excluded.due, changed = excluded.changed,
            moved = greatest(entity.moved, excluded.moved),
            ended_at = excluded.ended_at, has_events = excluded.has_events,
            holder = NULL, body = excluded.body
        WHERE entity.version = -1
        RETURNING due
    )
    SELECT count(*), min(due) INTO written, earliest
    FROM (SELECT due FROM updated UNION ALL SELECT due FROM inserted) AS entity;
END
$$;

-- Commit a batch in a single call, so that a process suspended during a commit holds no lock.
--   finished          earlier batches, whose rows can be dropped
--   keys, read_keys   kind, id and expected version of the entities that it writes, and only reads
--   updates, inserts  entities that exist, and new ones; `n` is the place of each in the batch
--   alone             whether to wait until no other commit is at work
-- Raises FW001 if an entity's version differs from the expected one; the message names the entity.
-- Raises FW002 if the batch has to be repeated alone.
CREATE FUNCTION write_batch(
    by_process text, batch_id uuid, finished uuid [], keys json, read_keys json, updates json,
    update_count bigint, inserts json, insert_count bigint, machines json, lines json,
    line_count bigint, impacts json, settled json, notes json, alone boolean,
    OUT base bigint, OUT next_due double precision
) LANGUAGE plpgsql AS $$
DECLARE
    ordered constant boolean := update_count + insert_count + line_count > 0;
    added constant bigint := coalesce(json_array_length(machines -> 'added'), 0);
    lock_timeout constant text := current_setting('lock_timeout');
    known bigint;
    stale text;
    first record;
    entities record;
    before head%ROWTYPE;
BEGIN
    -- First of all, before waiting for any lock: `abandon_batch` then waits for this transaction.
    INSERT INTO batch (id, process) VALUES (batch_id, by_process);
    DELETE FROM batch WHERE id = ANY(finished);

    IF ordered THEN
        -- IK1: commits of the same entities wait here; all take the locks in the same order.
        SELECT
            count(*) FILTER (WHERE was >= 0),
            min(kind || ' ' || id) FILTER (WHERE version <> was)
        INTO known, stale
        FROM (
            SELECT kind, id, entity.version, key.was FROM entity
            JOIN json_to_recordset(keys) AS key (kind text, id text, was bigint) USING (kind, id)
            ORDER BY kind, id FOR UPDATE OF entity
        ) AS locked;
        IF alone THEN
            PERFORM pg_advisory_xact_lock(1180789106, 1);
        ELSE
            PERFORM pg_advisory_xact_lock_shared(1180789106, 1);
        END IF;
        IF alone OR known < update_count THEN
            stale := stale_entity(keys);
        END IF;
        stale := coalesce(stale, stale_entity(read_keys));
        IF stale IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'FW001', MESSAGE = stale;
        END IF;

        first := reserve_numbers(update_count + insert_count, line_count, added, alone);
        IF NOT alone THEN
            -- A predecessor may wait for this commit if both add the same name or address.
            PERFORM set_config('lock_timeout', '100ms', true);
        END IF;
        entities := write_entities(updates, inserts, first.last_position);
        IF entities.written < update_count + insert_count THEN
            RAISE EXCEPTION USING ERRCODE = 'FW002';
        END IF;
        IF machines IS NOT NULL THEN
            PERFORM write_machines(machines, first.last_machine);
        END IF;
        INSERT INTO journal
        SELECT first.last_line + new.n, new.at, new.actor, new.kind, new.id,
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
    END IF;

    IF impacts IS NOT NULL THEN
        -- Each holder of an impact is in this table, also one that was suspended for long.
        INSERT INTO process (id) VALUES (by_process) ON CONFLICT DO NOTHING;
        INSERT INTO impact (id, holder, body)
        SELECT new.id, by_process, new.body
        FROM json_to_recordset(impacts) AS new (id text, body text)
        ON CONFLICT (id) DO UPDATE SET body = excluded.body, holder = excluded.holder;
    END IF;
    IF settled IS NOT NULL THEN
        DELETE FROM impact WHERE id IN (SELECT value FROM json_array_elements_text(settled));
    END IF;
    IF notes IS NOT NULL THEN
        INSERT INTO note (name, value)
        SELECT key, value FROM json_each_text(notes)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value;
    END IF;

    IF ordered THEN
        PERFORM set_config('lock_timeout', lock_timeout, true);
        PERFORM pg_advisory_xact_lock_shared(1180789107, first.predecessor);
        SELECT * FROM head INTO before ORDER BY number DESC LIMIT 1;
        IF (before.position, before.line, before.machine)
            <> (first.last_position, first.last_line, first.last_machine) THEN
            RAISE EXCEPTION USING ERRCODE = 'FW002';
        END IF;
        stale := stale_entity(read_keys);
        IF stale IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'FW001', MESSAGE = stale;
        END IF;
        INSERT INTO head (number, position, line, machine, due)
        VALUES (
            before.number + 1,
            before.position + update_count + insert_count,
            before.line + line_count,
            before.machine + added,
            coalesce(
                (
                    SELECT due FROM entity WHERE due >= least(before.due, entities.earliest)
                    ORDER BY due LIMIT 1
                ),
                'infinity'
            )
        );
        DELETE FROM head WHERE number = before.number;
        PERFORM pg_notify('fairwarning', '');
    END IF;
    base := before.position;
    next_due := first_due(by_process);
END
$$;
