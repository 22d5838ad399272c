#!/bin/sh
# Run by the image of PostgreSQL while its volume is empty.
set -eu
psql --username postgres --dbname "$POSTGRES_DB" --set ON_ERROR_STOP=1 --file /oncegate/roles.sql \
    --set "owner_password=$(cat /run/secrets/owner-password)" --set "gate_password=$(cat /run/secrets/gate-password)"
