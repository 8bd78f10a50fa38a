-- Finds operations and rollouts that have ended, by the time of their end. It is a number in the
-- body, and CAST reads a text up to the end of the number. A quote inside a JSON string is escaped
-- as \", so a string cannot contain these patterns.
CREATE INDEX entity_ended ON entity (
    CAST(substr(body, instr(body, '"ended_at":') + 11) AS REAL), kind, id
) WHERE kind IN ('Operation', 'Rollout')
AND instr(body, '"ended_at":') > 0 AND instr(body, '"ended_at":null') = 0;

-- Finds removed entities whose journal lines are all gone.
CREATE INDEX entity_removed ON entity (line) WHERE body IS NULL;
