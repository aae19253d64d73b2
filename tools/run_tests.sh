#!/bin/bash
# Runs every tier but bench: one pytest in each environment, all even when the first one fails. What
# starts no server and no JVM runs beside the rest, on the other core; what it says is shown once
# that has ended. The oldest PySpark runs a few files only: those that meet what changed since. The
# last run counts the results of those before it as well, so that its last line speaks for all.
set -uo pipefail
mkdir -p build
rm -f build/junit-*.xml
rooms=()
for room in format plan jobs metastore storage spark sql local; do rooms+=("airflow_hiveacid/$room"); done
starting="server or spark or interop or judge"

.venv-spark/bin/python -m pytest -m "not airflow and not bench and not ($starting)" --doctest-modules \
  -p no:cacheprovider --junitxml=build/junit-quick.xml "$@" tests "${rooms[@]}" >build/quick.log 2>&1 &
beside=$!
trap 'kill "$beside" 2>/dev/null' EXIT

.venv-spark/bin/python -m pytest -m "not airflow and not bench and ($starting)" \
  --junitxml=build/junit-spark.xml "$@" tests
spark=$?

wait "$beside"
quick=$?
trap - EXIT
cat build/quick.log

# PySpark 3.5 asks for the version of pandas in a way that Python is about to forget.
PYTHONPATH="$PWD/build/oldest-spark" .venv-spark/bin/python -m pytest -m spark \
  -W "ignore:distutils Version classes:DeprecationWarning" \
  --junitxml=build/junit-oldest-spark.xml "$@" tests/spark/test_bad_input.py tests/spark/test_sources.py
oldest=$?

airflow_tests=(tests/arch)
for folder in tests/airflow tests/unit/hooks tests/unit/operators tests/unit/sensors tests/unit/triggers; do
  [ -d "$folder" ] && airflow_tests+=("$folder")
done
.venv/bin/python -m pytest -m airflow -p tools.earlier_results \
  --earlier "quick=build/junit-quick.xml" --earlier "Spark=build/junit-spark.xml" \
  --earlier "oldest Spark=build/junit-oldest-spark.xml" \
  --junitxml=build/junit-airflow.xml "$@" "${airflow_tests[@]}"
airflow=$?

# The first status that is not 0 counts: 1 is a failed test, above it is a run that broke off.
[ "$quick" -ne 0 ] && exit "$quick"
[ "$spark" -ne 0 ] && exit "$spark"
[ "$oldest" -ne 0 ] && exit "$oldest"
exit "$airflow"
