-- needs: 1
-- Drop the oldest journal partition if all its lines are from before a time, and return how many
-- lines it had. The partition that lines are added to stays.
--
-- A partition is dropped under an exclusive lock of the journal. While one transaction waits for that
-- lock, all later readers and writers wait behind it. So the lock is requested only if no transaction
-- has had the journal open for a while (a dump, a forgotten session), and only for a moment. Otherwise
-- the function fails with lock_not_available, and its message names the transactions.
CREATE OR REPLACE FUNCTION drop_partition(before double precision) RETURNS bigint
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
