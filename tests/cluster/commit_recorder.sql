-- A table of all batches, and a function in place of `write_batch` that fills it.

SET search_path TO fairwarning;
CREATE TABLE recorded_batch (
    n bigint GENERATED ALWAYS AS IDENTITY, at double precision NOT NULL, process text NOT NULL,
    payload json NOT NULL, shift double precision NOT NULL
);
ALTER FUNCTION write_batch RENAME TO write_unrecorded;
CREATE FUNCTION write_batch(
    by_process text, batch_id uuid, finished uuid [], keys json, read_keys json, updates json,
    update_count bigint, inserts json, insert_count bigint, machines json, lines json,
    line_count bigint, impacts json, settled json, notes json, alone boolean,
    OUT base bigint, OUT next_due double precision
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT * FROM write_unrecorded(
        by_process, batch_id, finished, keys, read_keys, updates, update_count, inserts,
        insert_count, machines, lines, line_count, impacts, settled, notes, alone
    ) INTO base, next_due;
    INSERT INTO recorded_batch (at, process, shift, payload)
    VALUES (extract(epoch FROM clock_timestamp()), by_process, (
        SELECT shift FROM fleet_clock ORDER BY number DESC LIMIT 1
    ), json_build_object(
        'keys', keys, 'read', read_keys, 'updates', updates, 'inserts', inserts,
        'machines', machines, 'lines', lines, 'impacts', impacts, 'settled', settled
    ));
END
$$;
