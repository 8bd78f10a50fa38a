-- Each commit creates a scope with a due time, and clears that of the scope before, as when events
-- end one after the other; and it starts an impact, and settles the one before.
DO $$
DECLARE
    last uuid;
    this uuid;
BEGIN
    FOR n IN {first}..{last} LOOP
        this := gen_random_uuid();
        PERFORM write_batch(
            'p', this, ARRAY[last],
            json_build_array(
                json_build_object('kind', 'Scope', 'id', 's' || n - 1,
                    'was', CASE WHEN n > 1 THEN 1 ELSE -1 END),
                json_build_object('kind', 'Scope', 'id', 's' || n, 'was', -1)), NULL,
            json_build_array(json_build_object('n', 1, 'kind', 'Scope', 'id', 's' || n - 1,
                'version', 2, 'due', NULL, 'moves', false, 'body', '{{}}')),
            CASE WHEN n > 1 THEN 1 ELSE 0 END,
            json_build_array(json_build_object('n', 2, 'kind', 'Scope', 'id', 's' || n,
                'version', 1, 'due', n, 'moves', true, 'body', '{{}}')),
            1,
            json_build_object('added', json_build_array(
                json_build_object('scope', 's', 'name', n, 'address', '', 'body', '{{}}'))),
            json_build_array(json_build_object('at', n, 'actor', 'a', 'kind', 'Scope',
                'id', 's' || n, 'type', 't', 'event', '', 'machines', '', 'operation', '',
                'detail', '', 'announcement', '')),
            1,
            json_build_array(json_build_object('id', n, 'body', '{{}}')),
            json_build_array(n - 1), NULL, false);
        COMMIT;
        last := this;
    END LOOP;
END $$
