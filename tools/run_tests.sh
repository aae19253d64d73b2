#!/bin/bash
# Runs every tier but bench, each in its environment, all even when one fails. What needs Spark or a
# server takes longest, then the oldest PySpark (the files that meet what changed since); everything
# else runs beside it, as the one that gives way, and what it says is shown once it has ended: what
# starts nothing, then Airflow, then other engines. A last, small run counts the results of all, so
# that its last line speaks for them.
set -uo pipefail
mkdir -p build
rm -f build/junit-*.xml
rooms=()
for room in format plan jobs metastore storage spark sql local; do rooms+=("airflow_hiveacid/$room"); done
engines="interop or judge"
starting="server or spark or $engines"
airflow_tests=()
for folder in tests/airflow tests/unit/hooks tests/unit/operators tests/unit/sensors tests/unit/triggers; do
  [ -d "$folder" ] && airflow_tests+=("$folder")
done

beside() {
  local status=0
  renice -n 10 -p "$BASHPID" >/dev/null # tests of servers and clocks are next door
  .venv-spark/bin/python -m pytest -m "not airflow and not bench and not ($starting)" --doctest-modules \
    -p no:cacheprovider --junitxml=build/junit-quick.xml "$@" tests "${rooms[@]}" || status=$?
  .venv/bin/python -m pytest -m airflow -p no:cacheprovider \
    --junitxml=build/junit-airflow.xml "$@" "${airflow_tests[@]}" || status=$?
  .venv-spark/bin/python -m pytest -m "$engines" -p no:cacheprovider \
    --junitxml=build/junit-engines.xml "$@" tests || status=$?
  return "$status"
}

set -m # a group of its own, so that it ends with us
beside "$@" >build/beside.log 2>&1 &
beside=$!
set +m
trap 'kill -- "-$beside" 2>/dev/null' EXIT

.venv-spark/bin/python -m pytest -m "not airflow and not bench and not ($engines) and (server or spark)" \
  --junitxml=build/junit-spark.xml "$@" tests
spark=$?
# PySpark 3.5 asks for the version of pandas in a way that Python is about to forget.
PYTHONPATH="$PWD/build/oldest-spark" .venv-spark/bin/python -m pytest -m spark \
  -W "ignore:distutils Version classes:DeprecationWarning" -p no:cacheprovider \
  --junitxml=build/junit-oldest-spark.xml "$@" tests/spark/test_bad_input.py tests/spark/test_sources.py
oldest=$?

wait "$beside"
others=$?
trap - EXIT
cat build/beside.log

.venv/bin/python -m pytest -m airflow -p tools.earlier_results \
  --earlier "quick=build/junit-quick.xml" --earlier "Spark=build/junit-spark.xml" \
  --earlier "oldest Spark=build/junit-oldest-spark.xml" --earlier "Airflow=build/junit-airflow.xml" \
  --earlier "engines=build/junit-engines.xml" \
  --junitxml=build/junit-arch.xml tests/arch
all=$?

# The first status that is not 0 counts: 1 is a failed test, above it is a run that broke off.
[ "$spark" -ne 0 ] && exit "$spark"
[ "$oldest" -ne 0 ] && exit "$oldest"
[ "$others" -ne 0 ] && exit "$others"
exit "$all"
