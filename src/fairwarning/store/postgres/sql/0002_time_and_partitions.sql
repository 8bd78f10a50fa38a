-- needs: 1
-- The shared time, due entities, and the partitions of the journal.

-- The time that all processes share (E11). It is the database's clock plus `shift`; a step of that
-- clock changes `shift`, so that it shortens no notice and ends no lease.
-- Each change adds a row and removes the one before, as in `head`.
--   read_at    the database's clock when a process last called `advance_clock`, about once a second
--   line       changes whenever a process cannot go on from what it has read before
--   challenge  what the next correction has to answer
CREATE TABLE fleet_clock (
    number bigint PRIMARY KEY,
    shift double precision NOT NULL,
    read_at double precision NOT NULL,
    line uuid NOT NULL,
    challenge uuid
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
INSERT INTO fleet_clock (number, shift, read_at, line)
VALUES (0, 0, extract(epoch FROM clock_timestamp())::double precision, gen_random_uuid());

-- The shared time. If nobody has called `advance_clock` for a while, either all processes are down or
-- the clock was stepped; then it is the time of the last call.
CREATE FUNCTION fleet_time() RETURNS double precision STABLE LANGUAGE sql AS $$
    SELECT shift + CASE
        WHEN extract(epoch FROM clock_timestamp())::double precision - read_at BETWEEN 0 AND 5
            THEN extract(epoch FROM clock_timestamp())::double precision
        ELSE read_at
    END
    FROM fleet_clock ORDER BY number DESC LIMIT 1
$$;

-- Lock the clock until the end of the transaction, and return it.
CREATE FUNCTION lock_clock() RETURNS fleet_clock LANGUAGE plpgsql AS $$
DECLARE
    newest fleet_clock%ROWTYPE;
BEGIN
    PERFORM pg_advisory_xact_lock(1180789106, 4);
    SELECT * FROM fleet_clock INTO newest ORDER BY number DESC LIMIT 1;
    RETURN newest;
END
$$;

CREATE FUNCTION set_clock(
    last_number bigint, shift double precision, read_at double precision, line uuid, challenge uuid
) RETURNS void LANGUAGE sql AS $$
    DELETE FROM fleet_clock WHERE number = last_number;
    INSERT INTO fleet_clock (number, shift, read_at, line, challenge)
    VALUES (last_number + 1, shift, read_at, line, challenge);
$$;

-- Whether a notice or an impact is pending.
CREATE FUNCTION is_promised() RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT EXISTS (SELECT FROM entity WHERE has_events) OR EXISTS (SELECT FROM impact)
$$;

-- Read the shared time, and move it on. The database's clock is believed, unless it contradicts what
-- the caller has `proven`: the time up to which its own clock has counted. That is null if the caller
-- reads the shared time for the first time, and proves nothing if somebody has begun a new `line`
-- since: a proof goes on from what was read on the same line.
--
-- After more than two seconds without a reading, or if the clock was turned back, only proven time
-- counts. If all processes were down, nothing tells a step from the time that passed, and none of it
-- counts while something is promised. While nothing is promised, the shared time returns to the
-- database's clock, by half a second for each second.
--
-- The database may have been paused, and a proof been sent before that, by a caller that has given up
-- meanwhile. So a correction takes two calls: the first one gets a `challenge` and no time, the second
-- one has `answered` it with what is proven now.
CREATE FUNCTION advance_clock(
    proven double precision, known_line uuid, answered uuid,
    OUT now double precision, OUT ahead double precision, OUT line uuid, OUT challenge uuid
) LANGUAGE plpgsql AS $$
DECLARE
    host double precision;
    passed double precision;
    reached double precision;
    is_clear boolean;
    is_right boolean;
    before fleet_clock%ROWTYPE;
BEGIN
    before := lock_clock();
    host := extract(epoch FROM clock_timestamp());
    passed := host - before.read_at;
    reached := before.read_at + before.shift;
    is_clear := passed BETWEEN 0 AND 2;
    ahead := before.shift;
    line := gen_random_uuid();
    is_right := is_clear AND proven <= host + ahead + 0.1;
    IF known_line IS NOT NULL AND NOT is_right AND (answered = before.challenge) IS NOT TRUE THEN
        challenge := coalesce(before.challenge, gen_random_uuid());
        PERFORM set_clock(before.number, ahead, before.read_at, before.line, challenge);
        line := known_line;
        RETURN;
    ELSIF known_line = before.line AND NOT is_right THEN
        ahead := greatest(reached, proven) - host;
    ELSIF NOT is_clear THEN
        ahead := CASE
            WHEN known_line IS NOT NULL OR is_promised() THEN reached
            ELSE greatest(reached, host)
        END - host;
    ELSIF abs(ahead) > 0.01 AND NOT is_promised() THEN
        ahead := ahead - sign(ahead) * least(abs(ahead), passed / 2);
    ELSIF is_right THEN
        line := before.line;
    END IF;
    PERFORM set_clock(before.number, ahead, host, line, NULL);
    now := host + ahead;
END
$$;

-- Let the lease of a process end after a while. If an earlier call of the same process arrives late,
-- one of both is enough.
CREATE FUNCTION set_lease(by_process text, seconds double precision) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    last bigint;
BEGIN
    INSERT INTO process (id) VALUES (by_process) ON CONFLICT DO NOTHING;
    SELECT number INTO last FROM lease WHERE process = by_process ORDER BY number DESC LIMIT 1;
    DELETE FROM lease WHERE process = by_process AND number = last;
    INSERT INTO lease (process, number, until)
    VALUES (by_process, coalesce(last, 0) + 1, fleet_time() + seconds) ON CONFLICT DO NOTHING;
END
$$;

-- Whether a process runs.
CREATE FUNCTION alive(holder text) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT EXISTS (
        SELECT FROM process CROSS JOIN LATERAL (
            SELECT until FROM lease WHERE lease.process = process.id ORDER BY number DESC LIMIT 1
        ) AS newest
        WHERE process.id = holder AND NOT process.ended AND newest.until > fleet_time()
    )
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
