-- The number of its event's first line, on each line about an event. Events that are announced
-- together have neighbouring first lines, so a batch that continues many of them writes few pages of
-- the index; the ids of events are random.
ALTER TABLE journal ADD COLUMN first_line INTEGER NOT NULL DEFAULT 0;
UPDATE journal SET first_line = (
    SELECT event.line FROM event
    WHERE event.id = journal.event AND event.kind = journal.kind AND event.entity = journal.id
) WHERE event <> '';
CREATE INDEX journal_first_line ON journal (first_line, number) WHERE first_line > 0;

-- Finds the scopes that have events without scanning the others. A quote inside a JSON string is
-- escaped as \", so a string cannot contain this pattern.
CREATE INDEX entity_with_events ON entity (id) WHERE instr(body, '"events":{"') > 0;
