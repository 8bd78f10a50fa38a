-- needs: 1
-- The time that all processes share (E11). It is the database's clock plus `shift`; a step of that
-- clock changes `shift`, so that it shortens no notice and ends no lease.
--   read_at  the database's clock when a process last called `advance_clock`, about once a second
CREATE TABLE fleet_clock (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    shift double precision NOT NULL,
    read_at double precision NOT NULL
) WITH (fillfactor = 10);
INSERT INTO fleet_clock (shift, read_at)
VALUES (0, extract(epoch FROM clock_timestamp())::double precision);

-- The shared time. If nobody has called `advance_clock` for a while, either all processes are down or
-- the clock was stepped; then it is the time of the last call.
CREATE FUNCTION fleet_time() RETURNS double precision STABLE LANGUAGE sql AS $$
    SELECT shift + CASE
        WHEN extract(epoch FROM clock_timestamp())::double precision - read_at BETWEEN 0 AND 5
            THEN extract(epoch FROM clock_timestamp())::double precision
        ELSE read_at
    END
    FROM fleet_clock WHERE single
$$;

-- Read the shared time, and detect a step of the database's clock. `elapsed` is the time since the
-- caller's last call by its own clock, so that no more than this has passed; it is null for a process
-- that has just started, for which a step and time that all processes were down look the same.
-- While no notice and no impact is pending, the shared time returns to the database's clock, by half
-- a second for each second.
CREATE FUNCTION advance_clock(
    elapsed double precision, OUT now double precision, OUT ahead double precision
) LANGUAGE plpgsql AS $$
DECLARE
    tolerance constant double precision := 2;
    host double precision;
    before fleet_clock%ROWTYPE;
    passed double precision;
BEGIN
    SELECT * FROM fleet_clock INTO before WHERE single FOR UPDATE;
    host := extract(epoch FROM clock_timestamp());
    passed := host - before.read_at;
    ahead := before.shift;
    IF elapsed IS NULL AND passed NOT BETWEEN 0 AND tolerance THEN
        ahead := greatest(before.read_at + before.shift, host + least(before.shift, 0)) - host;
    ELSIF passed < 0 OR passed > elapsed + tolerance THEN
        ahead := before.shift - passed;
    ELSIF abs(ahead) > 0.01
        AND NOT EXISTS (
            SELECT FROM entity WHERE kind = 'Scope' AND position('"events":{"' IN body) > 0
        )
        AND NOT EXISTS (SELECT FROM impact) THEN
        ahead := ahead - sign(ahead) * least(abs(ahead), passed / 2);
    END IF;
    UPDATE fleet_clock SET shift = ahead, read_at = host WHERE single;
    now := host + ahead;
END
$$;

CREATE OR REPLACE FUNCTION alive(holder text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT EXISTS (SELECT FROM process WHERE id = holder AND until > to_timestamp(fleet_time()))
$$;
