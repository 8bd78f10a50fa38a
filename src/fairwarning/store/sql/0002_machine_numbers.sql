-- A machine's number is the last part of its loopback address (M22), so it is never given again.
ALTER TABLE head ADD COLUMN machine INTEGER NOT NULL DEFAULT 0;
UPDATE head SET machine = coalesce((SELECT max(number) FROM machine), 0);
