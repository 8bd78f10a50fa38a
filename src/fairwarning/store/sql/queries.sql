-- All statements, by name. Those that write take many rows at once: their (?, ...) is repeated, so
-- that a batch takes a handful of statements however many commands it contains.

-- name: head
SELECT position, line, machine FROM head;

-- name: position
SELECT position FROM head;

-- name: move_head
UPDATE head SET position = ?, line = ?, machine = ?;

-- name: put_entities
-- `previous` passes the expected version (-1: none). If the stored one differs, the row does not
-- change, and the statement changes too few rows (IK1). An entity that must exist comes with
-- number -1, which is only stored if the entity is missing; see missing_entities.
INSERT INTO entity (
    number, kind, id, version, due, changed, ended_at, has_events, line, previous, body
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (kind, id) DO UPDATE SET
    version = excluded.version,
    due = excluded.due,
    changed = excluded.changed,
    ended_at = excluded.ended_at,
    has_events = excluded.has_events,
    line = max(entity.line, excluded.line),
    previous = entity.line,
    body = excluded.body
WHERE entity.version = excluded.previous;

-- name: missing_entities
SELECT number FROM entity WHERE number < 0;

-- name: set_newest_lines
-- For entities that have lines in the batch but no change.
INSERT INTO entity (kind, id, version, line, previous)
VALUES (?, ?, -1, ?, 0)
ON CONFLICT (kind, id) DO UPDATE SET line = excluded.line, previous = entity.line;

-- name: version
SELECT version FROM entity WHERE kind = ? AND id = ? AND body IS NOT NULL;

-- name: entity_body
SELECT body FROM entity WHERE kind = ? AND id = ? AND body IS NOT NULL;

-- name: due_entities
SELECT kind, id FROM entity WHERE due <= :now ORDER BY due, number LIMIT :limit;

-- name: next_due
SELECT min(due) FROM entity WHERE due IS NOT NULL;

-- name: list_ids
SELECT id FROM entity WHERE kind = :kind AND id > :after AND body IS NOT NULL ORDER BY id LIMIT :limit;

-- name: scopes_with_events
SELECT id FROM entity
WHERE id > :after AND has_events = 1 ORDER BY id LIMIT :limit;

-- name: changes_since
SELECT changed, id FROM entity WHERE changed > :after ORDER BY changed LIMIT :limit;

-- name: remove_machines
WITH old (scope, name) AS (
    VALUES (?, ?)
)
DELETE FROM machine WHERE number IN (
    SELECT machine.number FROM old CROSS JOIN machine USING (scope, name)
);

-- name: free_addresses
-- Clears old addresses before new ones are set, so that machines can swap addresses.
WITH old (scope, name) AS (
    VALUES (?, ?)
)
UPDATE machine SET address = '' WHERE number IN (
    SELECT machine.number FROM old CROSS JOIN machine USING (scope, name)
);

-- name: put_machines
INSERT INTO machine (number, scope, name, address, body)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (scope, name) DO UPDATE SET address = excluded.address, body = excluded.body;

-- name: machine_bodies
SELECT body FROM machine WHERE scope = ? ORDER BY number;

-- name: machines_by_name
SELECT number, scope, body FROM machine WHERE name = :name ORDER BY scope;

-- name: machine_by_address
SELECT number, scope, body FROM machine WHERE address = ? AND address <> '';

-- name: machines_by_scope
SELECT number, scope, body FROM machine WHERE scope = :scope ORDER BY number;

-- name: machine_by_number
SELECT number, scope, body FROM machine WHERE number = ?;

-- name: list_machines
SELECT number, scope, body FROM machine WHERE number > :after ORDER BY number LIMIT :limit;

-- name: put_impacts
INSERT INTO impact (id, body)
VALUES (?, ?)
ON CONFLICT (id) DO UPDATE SET body = excluded.body;

-- name: settle_impacts
WITH old (id) AS (
    VALUES (?)
)
DELETE FROM impact WHERE id IN old;

-- name: unfinished_impacts
SELECT body FROM impact WHERE id > :after ORDER BY id LIMIT :limit;

-- name: add_events
-- Runs before the lines are added, which refer to these rows.
INSERT OR IGNORE INTO event (id, kind, entity, line)
VALUES (?, ?, ?, ?);

-- name: add_lines
WITH new (
    number, before, at, actor, kind, id, type, event, machines, operation, detail, announcement
) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
)
INSERT INTO journal (
    number, before, at, actor, kind, id, type, event, machines, operation, detail,
    announcement, first_line
)
SELECT
    new.number, new.before, new.at, new.actor, new.kind, new.id,
    new.type, new.event, new.machines, new.operation, new.detail,
    new.announcement, coalesce(event.line, 0)
FROM new
LEFT JOIN event ON event.id = new.event AND event.kind = new.kind AND event.entity = new.id;

-- name: add_first_lines
-- A batch's first line about an entity continues the chain from before the batch.
WITH new (
    number, at, actor, kind, id, type, event, machines, operation, detail, announcement
) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
)
INSERT INTO journal (
    number, before, at, actor, kind, id, type, event, machines, operation, detail,
    announcement, first_line
)
SELECT
    new.number, entity.previous, new.at, new.actor, new.kind, new.id,
    new.type, new.event, new.machines, new.operation, new.detail,
    new.announcement, coalesce(event.line, 0)
FROM new
CROSS JOIN entity USING (kind, id)
LEFT JOIN event ON event.id = new.event AND event.kind = new.kind AND event.entity = new.id;

-- name: lines
SELECT number, at, actor, kind, id, type, event, machines, operation, detail, announcement
FROM journal WHERE number > :after ORDER BY number LIMIT :limit;

-- name: latest
SELECT number, at, actor, kind, id, type, event, machines, operation, detail, announcement
FROM journal WHERE number < :before ORDER BY number DESC LIMIT :limit;

-- name: lines_of_operation
SELECT number, at, actor, kind, id, type, event, machines, operation, detail, announcement
FROM journal WHERE number > :after AND number < :before AND operation = :operation
ORDER BY number LIMIT :limit;

-- name: latest_of_entity
-- `before` is the number of one of its lines, or greater than all of them.
WITH RECURSIVE chain (number) AS (
    SELECT coalesce(
        (SELECT before FROM journal WHERE number = :before),
        (SELECT line FROM entity WHERE kind = :kind AND id = :id),
        0
    )
    UNION ALL
    SELECT journal.before FROM chain CROSS JOIN journal USING (number)
    WHERE journal.before > 0
    LIMIT :limit
)
SELECT number, at, actor, kind, id, type, event, machines, operation, detail, announcement
FROM chain CROSS JOIN journal USING (number)
ORDER BY number DESC;

-- name: lines_of_entity
WITH RECURSIVE chain (number) AS (
    SELECT line FROM entity WHERE kind = :kind AND id = :id AND line > :after
    UNION ALL
    SELECT journal.before FROM chain CROSS JOIN journal USING (number)
    WHERE journal.before > :after
)
SELECT number, at, actor, kind, id, type, event, machines, operation, detail, announcement
FROM chain CROSS JOIN journal USING (number)
WHERE :event IN ('', event) ORDER BY number LIMIT :limit;

-- name: lines_of_event
SELECT
    journal.number, journal.at, journal.actor, journal.kind, journal.id,
    journal.type, journal.event, journal.machines, journal.operation, journal.detail,
    journal.announcement
FROM event CROSS JOIN journal ON journal.first_line = event.line
WHERE event.id = :event AND journal.first_line > 0 AND journal.number > :after
ORDER BY journal.number LIMIT :limit;

-- name: oldest_lines
SELECT number, at FROM journal WHERE number > 0 ORDER BY number LIMIT 1000;

-- name: delete_old_events
-- Runs before the lines are deleted. An event that has newer lines stays.
DELETE FROM event WHERE id IN (
    SELECT event FROM journal WHERE number <= :last AND event <> ''
) AND NOT EXISTS (
    SELECT 1 FROM journal
    WHERE first_line = event.line AND first_line > 0 AND number > :last
);

-- name: delete_old_lines
DELETE FROM journal WHERE number <= :last;

-- name: ended_entities
SELECT kind, id FROM entity
WHERE ended_at IS NOT NULL AND ended_at < :before ORDER BY ended_at, kind, id LIMIT :limit;

-- name: delete_tombstones
-- A row that leads to journal lines stays.
DELETE FROM entity WHERE number IN (
    SELECT number FROM entity
    WHERE body IS NULL AND coalesce(changed, 0) <= :until AND line < coalesce(
        (SELECT min(number) FROM journal), (SELECT line + 1 FROM head)
    )
    ORDER BY line LIMIT 500
);

-- name: delete_polls_of_removed
-- Runs before the rows of removed entities are deleted.
DELETE FROM poll WHERE scope IN (
    SELECT id FROM entity
    WHERE kind = 'Scope' AND body IS NULL AND coalesce(changed, 0) <= :until AND line < coalesce(
        (SELECT min(number) FROM journal), (SELECT line + 1 FROM head)
    )
    ORDER BY line LIMIT 500
);

-- name: record_polls
INSERT INTO poll (scope, at)
VALUES (?, ?)
ON CONFLICT (scope) DO UPDATE SET at = max(at, excluded.at);

-- name: recorded_poll
SELECT scope, at FROM poll WHERE scope = ?;

-- name: put_notes
INSERT INTO note (name, value)
VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: add_note_if_absent
INSERT OR IGNORE INTO note (name, value) VALUES (:name, :value);

-- name: get_note
SELECT value FROM note WHERE name = :name;

-- name: list_notes
SELECT name, value FROM note WHERE name > :after AND name < :until ORDER BY name LIMIT :limit;

-- name: delete_note
DELETE FROM note WHERE name = ? AND value = ?;
