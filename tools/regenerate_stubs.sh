#!/bin/sh
# Regenerate airflow_hiveacid/metastore/gen from airflow_hiveacid/metastore/idl.
#
# Debian 12: apt-get install thrift-compiler (0.17). Do not add the option `enum`: Thrift cannot write
# the enums of 0.17 to a connection, and they would lose unknown numbers of a newer server.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
idl="$root/airflow_hiveacid/metastore/idl"
gen="$root/airflow_hiveacid/metastore/gen"
wanted="Thrift version 0.17.0"

found=$(thrift --version) || { echo "the thrift compiler is not installed" >&2; exit 1; }
if [ "$found" != "$wanted" ]; then
    echo "the stubs require '$wanted', but this is '$found'" >&2
    exit 1
fi

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

for file in "$idl"/*.thrift; do
    thrift -strict --gen py:slots,dynamic -out "$out" "$file"
done

made="$out/airflow_hiveacid/metastore/gen"
find "$made" -name '*-remote' -delete
printf '"""Stubs of the metastore, generated from ../idl; never edited."""\n' > "$made/__init__.py"

# Only servers need the interface and the processor; tests have a processor of their own.
for file in "$made"/service/*.py; do
    sed -i -e '/^class Iface(/,/^class Client(/{/^class Client(/!d}' \
        -e '/^class Processor(/,/^# HELPER FUNCTIONS/{/^# HELPER FUNCTIONS/!d}' \
        -e 's/^class Client(Iface):/class Client(object):/' "$file"
done

rm -rf "$gen"
cp -r "$made" "$gen"
echo "generated $(find "$gen" -name '*.py' | wc -l) files in ${gen#"$root"/}"
