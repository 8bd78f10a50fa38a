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

-- Read the shared time. If no process has done that for `gap` seconds, this may have been a step of
-- the database's clock: `settle_clock` follows. While no notice and no impact is pending, the shared
-- time returns to the database's clock, by half a second for each second.
CREATE FUNCTION advance_clock(
    OUT now double precision, OUT ahead double precision,
    OUT gap double precision, OUT last_read_at double precision
) LANGUAGE plpgsql AS $$
DECLARE
    host double precision;
    before fleet_clock%ROWTYPE;
    passed double precision;
BEGIN
    SELECT * FROM fleet_clock INTO before WHERE single FOR UPDATE;
    host := extract(epoch FROM clock_timestamp());
    passed := host - before.read_at;
    ahead := before.shift;
    last_read_at := before.read_at;
    IF passed > 2 THEN
        gap := passed;
        RETURN;
    ELSIF passed < 0 THEN
        ahead := before.shift - passed;  -- the clock was turned back
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

-- Continue the shared time after a gap, unless another process has done that. `step` is the part of
-- the gap that was a step of the database's clock. It is null if all processes were down: then the
-- clock is believed, but time does not run backwards, and a known step ahead is not followed.
CREATE FUNCTION settle_clock(
    last_read_at double precision, step double precision,
    OUT now double precision, OUT ahead double precision
) LANGUAGE plpgsql AS $$
DECLARE
    host double precision;
    before fleet_clock%ROWTYPE;
BEGIN
    SELECT * FROM fleet_clock INTO before WHERE single FOR UPDATE;
    host := extract(epoch FROM clock_timestamp());
    ahead := before.shift;
    IF before.read_at = last_read_at THEN
        ahead := CASE
            WHEN step IS NULL
                THEN greatest(before.read_at + before.shift, host + least(before.shift, 0)) - host
            ELSE before.shift - step
        END;
        UPDATE fleet_clock SET shift = ahead, read_at = host WHERE single;
    END IF;
    now := host + ahead;
END
$$;

CREATE OR REPLACE FUNCTION alive(holder text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT EXISTS (SELECT FROM process WHERE id = holder AND until > to_timestamp(fleet_time()))
$$;
