#!/bin/sh
# The entrypoint of the image that replaces the official `postgres` image: it creates the database
# for POSTGRES_USER, POSTGRES_DB and POSTGRES_PASSWORD, and starts the server.
set -eu
data=/var/lib/postgresql/data
if [ "$(id -u)" = 0 ]; then
    install --directory --owner postgres --group postgres --mode 0700 "$data" /var/run/postgresql
    exec setpriv --reuid postgres --regid postgres --init-groups "$0"
fi
PATH="$(echo /usr/lib/postgresql/*/bin):$PATH"
if [ ! -s "$data/PG_VERSION" ]; then
    password=$(mktemp)
    printf '%s' "$POSTGRES_PASSWORD" >"$password"
    initdb --pgdata "$data" --username="$POSTGRES_USER" --pwfile="$password" \
        --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8
    rm "$password"
    echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
    echo "CREATE DATABASE \"$POSTGRES_DB\"" | postgres --single -D "$data" postgres
fi
exec postgres -D "$data" -c 'listen_addresses=*'
