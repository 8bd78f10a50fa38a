-- needs: 1
-- Finds operations and rollouts that have ended, by the time of their end. A quote inside a JSON
-- string is escaped as \", so a string cannot contain this pattern.
CREATE INDEX entity_ended ON entity (
    (substring(body FROM '"ended_at":([0-9][^,}]*)')::double precision), kind, id
) WHERE kind IN ('Operation', 'Rollout') AND substring(body FROM '"ended_at":([0-9][^,}]*)') <> '';

-- Finds removed entities in the order of their removal.
CREATE INDEX entity_removed ON entity (changed) WHERE body IS NULL;
