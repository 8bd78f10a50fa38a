-- All statements, by name.

-- name: renew_lease
-- If a server crash loses a claim, it is made again, so there is no need to wait for the disk.
WITH no_sync AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
SELECT set_lease(%(process)s, %(lease)s) FROM no_sync;

-- name: end_lease
WITH finished AS (DELETE FROM batch WHERE id = ANY(%(finished)s::uuid [])),
ended AS (UPDATE process SET ended = true WHERE id = %(process)s)
SELECT set_lease(%(process)s, 0);

-- name: remove_dead_processes
-- Those whose lease expired more than a minute ago and whose impacts were taken over.
WITH dead AS (
    DELETE FROM process
    WHERE NOT EXISTS (SELECT FROM impact WHERE holder = process.id)
        AND fleet_time() - 60 > (
            SELECT until FROM lease WHERE lease.process = process.id ORDER BY number DESC LIMIT 1
        )
    RETURNING id
)
DELETE FROM lease USING dead WHERE lease.process = dead.id;

-- name: remove_old_batches
DELETE FROM batch WHERE at < now() - make_interval(secs => %(age)s);

-- name: feed_position
SELECT
    position, line, first_due(%(process)s),
    coalesce((SELECT value::bigint FROM note WHERE name = 'tombstones'), 0)
FROM head ORDER BY number DESC LIMIT 1;

-- name: orphaned_impacts
-- Looks only at the impacts of processes that do not run; a join might read all.
SELECT EXISTS (
    SELECT FROM process
    WHERE NOT alive(id) AND (SELECT true FROM impact WHERE holder = process.id LIMIT 1)
);

-- name: advance_clock
WITH no_sync AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
SELECT clock.* FROM no_sync, advance_clock(%(proven)s, %(line)s, %(answer)s) AS clock;

-- name: clock_is_unclear
-- Whether a step of the clock cannot be told from a time without processes: other processes have not
-- ended their leases, and none has read the clock for a while.
SELECT EXISTS (SELECT FROM process WHERE id <> %(process)s AND NOT ended)
    AND abs(extract(epoch FROM clock_timestamp())::double precision - read_at) > 2
FROM fleet_clock ORDER BY number DESC LIMIT 1;

-- name: write_batch
SELECT base, next_due FROM write_batch(
    %(process)s, %(batch)s, %(finished)s::uuid [], %(keys)s, %(read_keys)s,
    %(updates)s, %(update_count)s, %(inserts)s, %(insert_count)s, %(machines)s,
    %(lines)s, %(line_count)s, %(impacts)s, %(settled)s, %(notes)s, %(alone)s
);

-- name: abandon_batch
-- Prevent the commit of a batch, unless it took place. Waits for a commit in progress. It writes in
-- either case, so a commit that is found here is on the synchronous standby as well.
INSERT INTO batch (id, process, abandoned) VALUES (%(batch)s, %(process)s, true)
ON CONFLICT (id) DO UPDATE SET abandoned = batch.abandoned
RETURNING abandoned, first_due(%(process)s);

-- name: load_entities
-- One statement, so that a scope and its machines are consistent. An entity that the caller has
-- cached at its current position comes without a body, and unchanged machines are left out.
SELECT
    requested.n, entity.changed,
    CASE WHEN entity.changed <> requested.known THEN entity.body END,
    CASE WHEN entity.kind = 'Scope'
        AND (entity.moved > requested.known OR entity.changed < requested.known) THEN
        (SELECT coalesce(array_agg(body ORDER BY number), '{}')
        FROM machine WHERE scope = entity.id)
    END
FROM unnest(%(kinds)s::text [], %(ids)s::text [], %(known)s::bigint [])
WITH ORDINALITY AS requested (kind, id, known, n)
INNER JOIN entity USING (kind, id)
WHERE entity.body IS NOT NULL;

-- name: claim_due_entities
-- A process keeps its claim on an entity until the entity is written or the process ends.
WITH no_sync AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
free AS (
    SELECT kind, id FROM entity, no_sync
    WHERE due <= %(now)s
        AND due >= (SELECT head.due FROM head ORDER BY number DESC LIMIT 1)
        AND (holder IS NULL OR holder = %(process)s OR NOT alive(holder))
    ORDER BY due, number LIMIT %(limit)s
    FOR UPDATE OF entity SKIP LOCKED
)
UPDATE entity SET holder = %(process)s FROM free
WHERE entity.kind = free.kind AND entity.id = free.id
RETURNING entity.due, entity.number, entity.kind, entity.id;

-- name: next_due
SELECT first_due(%(process)s);

-- name: claim_impacts
WITH no_sync AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
free AS (
    SELECT id FROM impact, no_sync
    WHERE id > %(after)s AND (holder = %(process)s OR NOT alive(holder))
    ORDER BY id LIMIT %(limit)s
    FOR UPDATE OF impact SKIP LOCKED
)
UPDATE impact SET holder = %(process)s FROM free
WHERE impact.id = free.id
RETURNING impact.id, impact.body;

-- name: claim_duty
-- Writes nothing while a process has the duty.
WITH held AS (
    SELECT holder FROM duty
    WHERE name = %(name)s AND (holder = %(process)s OR alive(holder))
),
claimed AS (
    INSERT INTO duty (name, holder)
    SELECT %(name)s::text, %(process)s::text WHERE NOT EXISTS (SELECT FROM held)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder
    WHERE duty.holder = excluded.holder OR NOT alive(duty.holder)
    RETURNING holder
)
SELECT holder FROM held WHERE holder = %(process)s
UNION ALL
SELECT holder FROM claimed;

-- name: has_duty
SELECT name FROM duty WHERE name = %(name)s AND holder = %(process)s;

-- name: machines_by_name
SELECT number, scope, body FROM machine WHERE name = %(name)s ORDER BY scope;

-- name: machines_by_scope
SELECT number, scope, body FROM machine WHERE scope = %(scope)s ORDER BY number;

-- name: machines_at
SELECT number, scope, body FROM machine WHERE number = ANY(%(numbers)s::bigint [])
UNION ALL
SELECT number, scope, body FROM machine
WHERE address = ANY(%(addresses)s::text []) AND address <> '';

-- name: list_machines
SELECT number, scope, body FROM machine
WHERE number > %(after)s ORDER BY number LIMIT %(limit)s;

-- name: list_ids
SELECT id FROM entity
WHERE kind = %(kind)s AND id > %(after)s AND body IS NOT NULL ORDER BY id LIMIT %(limit)s;

-- name: scopes_with_events
SELECT id FROM entity
WHERE has_events AND id > %(after)s
ORDER BY id LIMIT %(limit)s;

-- name: changes_since
SELECT changed, id FROM entity
WHERE kind = 'Scope' AND changed > %(after)s ORDER BY changed LIMIT %(limit)s;

-- name: lines
SELECT number, at, actor, kind, id, type, event, machines, operation, detail, announcement
FROM journal WHERE number > %(after)s ORDER BY number LIMIT %(limit)s;

-- name: lines_of_entity
SELECT number, at, actor, kind, id, type, event, machines, operation, detail, announcement
FROM journal
WHERE kind = %(kind)s AND id = %(id)s AND number > %(after)s AND %(event)s IN ('', event)
ORDER BY number LIMIT %(limit)s;

-- name: lines_of_event
SELECT number, at, actor, kind, id, type, event, machines, operation, detail, announcement
FROM journal WHERE event = %(event)s AND event <> '' AND number > %(after)s
ORDER BY number LIMIT %(limit)s;

-- name: lines_of_operation
SELECT number, at, actor, kind, id, type, event, machines, operation, detail, announcement
FROM journal
WHERE number > %(after)s AND number < %(before)s AND operation = %(operation)s
ORDER BY number LIMIT %(limit)s;

-- name: latest
SELECT number, at, actor, kind, id, type, event, machines, operation, detail, announcement
FROM journal WHERE number < %(before)s ORDER BY number DESC LIMIT %(limit)s;

-- name: latest_of_entity
SELECT number, at, actor, kind, id, type, event, machines, operation, detail, announcement
FROM journal WHERE kind = %(kind)s AND id = %(id)s AND number < %(before)s
ORDER BY number DESC LIMIT %(limit)s;

-- name: drop_oldest_partition
SELECT drop_partition(%(before)s);

-- name: save_notes
-- Notes whose duty this process has; no other process takes the duty over meanwhile.
WITH held AS (
    SELECT new.name, new.value
    FROM unnest(%(names)s::text [], %(values)s::text [], %(duties)s::text [])
    AS new (name, value, duty)
    INNER JOIN duty ON duty.name = new.duty
    WHERE duty.holder = %(process)s
    ORDER BY new.name
    FOR SHARE OF duty
)
INSERT INTO note (name, value) SELECT name, value FROM held
ON CONFLICT (name) DO UPDATE SET value = excluded.value
RETURNING name;

-- name: add_note_if_absent
INSERT INTO note (name, value) VALUES (%(name)s, %(value)s) ON CONFLICT DO NOTHING;

-- name: get_note
SELECT value FROM note WHERE name = %(name)s;

-- name: list_notes
SELECT name, value FROM note
WHERE name > %(after)s AND name < %(until)s ORDER BY name LIMIT %(limit)s;

-- name: position
SELECT position FROM head ORDER BY number DESC LIMIT 1;

-- name: ended_entities
SELECT kind, id FROM entity
WHERE ended_at < %(before)s ORDER BY ended_at, kind, id LIMIT %(limit)s;

-- name: drop_tombstones
-- Waits for no commit, and notes up to which position removals may be gone from the change feed.
WITH old AS (
    SELECT kind, id FROM entity WHERE body IS NULL AND changed <= %(until)s
    ORDER BY changed LIMIT 500
    FOR UPDATE SKIP LOCKED
),
dropped AS (
    DELETE FROM entity USING old WHERE entity.kind = old.kind AND entity.id = old.id
    RETURNING entity.id
),
forgotten AS (
    DELETE FROM poll USING old WHERE old.kind = 'Scope' AND poll.scope = old.id
),
noted AS (
    INSERT INTO note (name, value)
    SELECT 'tombstones', %(until)s::bigint FROM dropped LIMIT 1
    ON CONFLICT (name) DO UPDATE
    SET value = greatest(note.value::bigint, excluded.value::bigint)
)
SELECT count(*) FROM dropped;

-- name: record_polls
-- In order, so that two processes that record the same scopes do not wait for each other.
INSERT INTO poll (scope, at)
SELECT * FROM unnest(%(scopes)s::text [], %(times)s::double precision []) ORDER BY 1
ON CONFLICT (scope) DO UPDATE SET at = excluded.at WHERE poll.at < excluded.at;

-- name: recorded_polls
SELECT scope, at FROM poll WHERE scope = ANY(%(scopes)s);

-- name: drop_note
DELETE FROM note WHERE name = %(name)s AND value = %(value)s;
