-- A machine's loopback address is derived from its number (M22), so numbers are never reused.
ALTER TABLE head ADD COLUMN machine INTEGER NOT NULL DEFAULT 0;
UPDATE head SET machine = coalesce((SELECT max(number) FROM machine), 0);
