#!/bin/bash
# Runs every tier but bench: one pytest in each environment, both even when the first one fails.
# The second one counts the results of the first as well, so that its last line speaks for all.
set -uo pipefail
mkdir -p build
rm -f build/junit-spark.xml build/junit-airflow.xml
rooms=()
for room in format plan jobs metastore storage spark local; do rooms+=("airflow_hiveacid/$room"); done

.venv-spark/bin/python -m pytest -m "not airflow and not bench" --doctest-modules \
  --junitxml=build/junit-spark.xml "$@" tests "${rooms[@]}"
spark=$?

airflow_tests=(tests/arch)
for folder in tests/airflow tests/unit/hooks tests/unit/operators tests/unit/sensors tests/unit/triggers; do
  [ -d "$folder" ] && airflow_tests+=("$folder")
done
.venv/bin/python -m pytest -m airflow -p tools.earlier_results --earlier build/junit-spark.xml \
  --junitxml=build/junit-airflow.xml "$@" "${airflow_tests[@]}"
airflow=$?

# The first status that is not 0 counts: 1 is a failed test, above it is a run that broke off.
[ "$spark" -ne 0 ] && exit "$spark"
exit "$airflow"
