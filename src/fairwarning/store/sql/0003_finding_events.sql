-- The last line that tells of an event, once it is over: its story is then found without a walk
-- over everything that came to pass since. 0 or less while there is more to come.
ALTER TABLE event ADD COLUMN last INTEGER NOT NULL DEFAULT 0;

-- Scopes that have events, so that they are found however many have none. A quote inside a text is
-- written \", so this cannot be part of one.
CREATE INDEX entity_busy ON entity (id) WHERE instr(body, '"events":{"') > 0;
