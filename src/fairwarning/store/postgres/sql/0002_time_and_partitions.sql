-- needs: 1
-- The shared time, due entities, and the partitions of the journal.

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
        AND NOT EXISTS (SELECT FROM entity WHERE has_events)
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

-- Whether a process runs.
CREATE FUNCTION alive(holder text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT EXISTS (SELECT FROM process WHERE id = holder AND until > to_timestamp(fleet_time()))
$$;

-- The earliest due time, ignoring entities that another running process has claimed.
CREATE FUNCTION first_due(by_process text) RETURNS double precision
STABLE LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT due FROM entity
        WHERE due >= (SELECT head.due FROM head ORDER BY number DESC LIMIT 1)
            AND (holder IS NULL OR holder = by_process OR NOT alive(holder))
        ORDER BY due, number LIMIT 1
    );
END
$$;

-- Create the journal partition for a line if it does not exist. Attaching a complete table blocks
-- neither readers nor writers.
CREATE FUNCTION add_partition(line bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    size constant bigint := 1000000;
    first constant bigint := line / size * size;
    name constant text := format('journal_%s', line / size);
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(1180789106, 3);
    IF to_regclass(name) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE journal INCLUDING DEFAULTS)', name);
        EXECUTE format(
            'ALTER TABLE journal ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
            name, first, first + size
        );
    END IF;
END
$$;
SELECT add_partition(0);

-- Drop the oldest journal partition if all its lines are from before a time, and return how many
-- lines it had. The partition that lines are added to stays.
--
-- A partition is dropped under an exclusive lock of the journal. While one transaction waits for that
-- lock, all later readers and writers wait behind it. So the lock is requested only if no transaction
-- has had the journal open for a while (a dump, a forgotten session), and only for a moment. Otherwise
-- the function fails with lock_not_available, and its message names the transactions.
CREATE FUNCTION drop_partition(before double precision) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    a_while constant double precision := 0.2;  -- seconds; a commit or a query is shorter
    oldest regclass;
    first bigint;
    last bigint;
    newest double precision;
    users text [];
    names text;
BEGIN
    SELECT inhrelid::regclass INTO oldest FROM pg_inherits
    WHERE inhparent = 'journal'::regclass
    ORDER BY substring(inhrelid::regclass::text FROM '[0-9]+$')::bigint LIMIT 1;
    IF oldest = format('journal_%s', (SELECT line FROM head) / 1000000)::regclass THEN
        RETURN 0;
    END IF;
    EXECUTE format('SELECT number, at FROM %s ORDER BY number DESC LIMIT 1', oldest)
    INTO last, newest;
    IF newest >= before THEN
        RETURN 0;
    END IF;
    EXECUTE format('SELECT number FROM %s ORDER BY number LIMIT 1', oldest) INTO first;

    SELECT array_agg(transaction) INTO users FROM journal_users(oldest);
    IF users IS NOT NULL THEN
        PERFORM pg_sleep(a_while);
        SELECT string_agg(DISTINCT name, ', ') INTO names FROM journal_users(oldest)
        WHERE transaction = ANY (users);
        IF names IS NOT NULL THEN
            RAISE EXCEPTION USING
                ERRCODE = 'lock_not_available', MESSAGE = 'the journal is in use by ' || names;
        END IF;
    END IF;
    -- A drop that a failover loses is repeated, so nothing waits for a standby under the lock.
    PERFORM set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '50ms', true);
    EXECUTE format('LOCK TABLE ONLY journal, ONLY %s IN ACCESS EXCLUSIVE MODE', oldest);
    EXECUTE format('DROP TABLE %s', oldest);
    RETURN coalesce(last - first + 1, 0);  -- the journal has no gaps
END
$$;

-- Other transactions that have the journal or one of its partitions open.
CREATE FUNCTION journal_users(part regclass, OUT transaction text, OUT name text)
RETURNS SETOF record LANGUAGE sql AS $$
    SELECT
        virtualtransaction,
        coalesce(nullif(application_name, ''), 'a client') || coalesce(' (pid ' || pid || ')', '')
    FROM pg_locks LEFT JOIN pg_stat_activity USING (pid)
    WHERE relation IN ('journal'::regclass, part)
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND pid IS DISTINCT FROM pg_backend_pid()
$$;
