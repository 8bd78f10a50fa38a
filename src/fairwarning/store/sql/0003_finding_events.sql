-- The story of an event: the number of its first line, on each of its lines. Stories that begin
-- together lie together, so a batch that goes on with many of them writes few pages of the index;
-- the ids of events themselves are scattered.
ALTER TABLE journal ADD COLUMN story INTEGER NOT NULL DEFAULT 0;
UPDATE journal SET story = (
    SELECT event.line FROM event
    WHERE event.id = journal.event AND event.kind = journal.kind AND event.entity = journal.id
) WHERE event <> '';
CREATE INDEX journal_story ON journal (story, number) WHERE story > 0;

-- Scopes that have events, so that they are found however many have none. A quote inside a text is
-- written \", so this cannot be part of one.
CREATE INDEX entity_busy ON entity (id) WHERE instr(body, '"events":{"') > 0;
