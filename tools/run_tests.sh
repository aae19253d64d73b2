#!/bin/bash
# Run every tier except bench, each in its environment, even if another tier fails. Three lanes run
# in parallel, since tests of servers, clocks and schedulers mostly wait. The first lane runs Spark.
# The second runs servers, then other engines, then Airflow. The third, with a lower priority, runs
# the tests that start no process, then the oldest PySpark (only the files that depend on the
# version) and the newest (fewer of them).
# The first lane's output is shown at once, and the output of the other lanes when they end, or when
# this script is terminated. A last, short run counts all results.
set -uo pipefail
# 80 minutes from now, processes that still run end, and show where they hang.
export HIVEACID_TESTS_UNTIL=$(($(date +%s) + 4800))
mkdir -p build
rm -f build/junit-*.xml
rooms=()
for room in format plan jobs metastore storage versions maintenance reading writing spark sql local java_program.py lazy_names.py; do rooms+=("airflow_hiveacid/$room"); done
engines="interop or judge"
starting="server or spark or $engines"
more=("$@")

# Collecting all of tests/ takes 15 seconds of CPU. tests/conftest.py ensures that tests that start a
# server or Spark are only in their tier's folder.
# in_tier NAME PYTHON EXPRESSION ARGUMENT...: one run of pytest with its duration; runs of one checkout
# share no cache.
in_tier() {
  local name="$1" python="$2" expression="$3"
  local TIMEFORMAT="tier $name: %R s, %U s of processors"
  shift 3
  time "$python" -m pytest -m "$expression" -p no:cacheprovider -p tools.run_deadline \
    --junitxml="build/junit-$name.xml" --durations=10 --durations-min=10 ${more[@]+"${more[@]}"} "$@"
}

of_servers() {
  local status=0
  in_tier servers .venv-spark/bin/python \
    "server and not airflow and not bench and not spark and not clusters and not long and not ($engines)" \
    tests/contract || status=$?
  in_tier engines .venv-spark/bin/python "($engines) and not long" tests/interop || status=$?
  in_tier airflow .venv/bin/python "airflow and not clusters and not long" tests/airflow || status=$?
  return "$status"
}

that_give_way() {
  renice -n 10 -p "$BASHPID" >/dev/null # tests of servers and clocks run beside
  local status=0
  in_tier quick .venv-spark/bin/python "not airflow and not bench and not long and not ($starting)" \
    --doctest-modules tests "${rooms[@]}" || status=$?
  # In these tests, no version of Spark has a part; the first lane runs them as well.
  local same="flat_table or insert_only_table or sorted_table or partition_column or bucket_column"
  same+=" or unreachable or lock_that or aborted_meanwhile or different_kind or write_permission"
  same+=" or of_another_bucket or without_a_data_file or p-row1 or tinyint or smallint or bigint"
  # PySpark 3.5 reads the version of pandas in a way that Python will remove, and checks types in a way
  # that pandas will remove.
  PYTHONPATH="$PWD/build/pyspark-$OLDEST_SPARK" in_tier oldest-spark .venv-spark/bin/python "spark and not long" \
    -W "ignore:distutils Version classes:DeprecationWarning" \
    -W "ignore:is_categorical_dtype is deprecated:DeprecationWarning" -k "not ($same)" \
    tests/spark/test_bad_input.py tests/spark/test_sources.py tests/spark/test_counted_writes.py \
    tests/spark/test_decimals.py tests/spark/test_few_files.py tests/spark/test_hive_functions.py || status=$?
  PYTHONPATH="$PWD/build/pyspark-$NEWEST_SPARK" in_tier newest-spark .venv-spark/bin/python \
    "spark and not long" $SPARK_SAMPLE || status=$?
  return "$status"
}

set -m # separate process groups, so that they end with us
of_servers >build/servers.log 2>&1 &
servers=$!
that_give_way >build/beside.log 2>&1 &
beside=$!
set +m
trap 'kill -- "-$servers" "-$beside" 2>/dev/null' EXIT
# A build server that ends the run wants to know which test was running.
trap 'tail -n 40 build/servers.log build/beside.log; exit 143' TERM

in_tier spark .venv-spark/bin/python "spark and not bench and not clusters and not long" tests/spark
statuses=($?)

wait "$servers"
statuses+=($?)
wait "$beside"
statuses+=($?)
trap - EXIT TERM
cat build/servers.log build/beside.log

earlier=()
for name in quick spark oldest-spark newest-spark servers airflow engines; do
  earlier+=(--earlier "$name=build/junit-$name.xml")
done
in_tier arch .venv/bin/python airflow -p tools.earlier_results "${earlier[@]}" tests/arch
statuses+=($?)

# Exit with the first status that is not 0: 1 is a failed test, a higher status is an aborted run.
for status in "${statuses[@]}"; do
  [ "$status" -eq 0 ] || exit "$status"
done
