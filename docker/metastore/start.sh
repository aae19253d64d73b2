#!/bin/bash
# Writes metastore-site.xml, password included, where only this user reads it, and hands over to the
# image's own entry point, which makes or upgrades the schema and serves.
set -euo pipefail
export HIVE_CUSTOM_CONF_DIR=/tmp/hive-conf
mkdir -p "$HIVE_CUSTOM_CONF_DIR" /warehouse/managed /warehouse/external
umask 077

property() {
  local value="${2//&/&amp;}"
  echo "<property><name>$1</name><value>${value//</&lt;}</value></property>"
}
{
  echo "<configuration>"
  property javax.jdo.option.ConnectionURL jdbc:postgresql://postgres:5432/metastore
  property javax.jdo.option.ConnectionDriverName org.postgresql.Driver
  property javax.jdo.option.ConnectionUserName hive
  property javax.jdo.option.ConnectionPassword "$METASTORE_DB_PASSWORD"
  property metastore.warehouse.dir file:/warehouse/managed
  property metastore.warehouse.external.dir file:/warehouse/external
  # Off by default, and then nobody aborts the transactions of dead clients.
  property metastore.housekeeping.threads.on true
  # The compaction DAG decides; the cleaner only removes what a compaction replaced.
  property metastore.compactor.initiator.on false
  property metastore.compactor.cleaner.on false
  echo "</configuration>"
} >"$HIVE_CUSTOM_CONF_DIR/metastore-site.xml"

umask 022
unset METASTORE_DB_PASSWORD
exec /entrypoint.sh
