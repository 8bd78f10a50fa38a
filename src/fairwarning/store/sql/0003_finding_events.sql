-- The story of an event: the number of its first line, on each of its lines. Stories that begin
-- together lie together, so a batch that goes on with many of them writes few pages of the index;
-- the ids of events themselves are scattered.
ALTER TABLE journal ADD COLUMN story INTEGER NOT NULL DEFAULT 0;
UPDATE journal SET story = (
    SELECT event.line FROM event
    WHERE event.id = journal.event AND event.kind = journal.kind AND event.entity = journal.id
) WHERE event <> '';
CREATE INDEX journal_story ON journal (story, number) WHERE story > 0;

-- Finds the scopes that have events without scanning the others. A quote inside a JSON string is
-- escaped as \", so a string cannot contain this pattern.
CREATE INDEX entity_with_events ON entity (id) WHERE instr(body, '"events":{"') > 0;
