#!/bin/bash
# Build what a release uploads, check it as the package index does, and install it from an index on
# this machine into empty environments, as users would (RELEASING.md). It needs five minutes.
set -euo pipefail
python="$1" # of the environment that has build and twine
folder="$PWD/build/rehearsal"
rm -rf dist "$folder"
mkdir -p "$folder"

"$python" -m build --no-isolation --outdir dist
"$python" -m airflow_hiveacid.cli.spark_wheel dist
"$python" -m twine check --strict dist/*

# An index is a folder for each project, with a page of its files.
for project in airflow-provider-hiveacid hiveacid-spark; do
  mkdir -p "$folder/index/$project"
  for file in dist/"${project//-/_}"-*; do
    cp "$file" "$folder/index/$project/"
    echo "<a href=\"${file##*/}\">${file##*/}</a>" >>"$folder/index/$project/index.html"
  done
done

# installed NAME REQUIREMENT: an environment with what the index has.
installed() {
  "$PYTHON" -m venv "$folder/$1"
  "$folder/$1/bin/python" -m pip --disable-pip-version-check install --quiet \
    --constraint constraints.txt --extra-index-url "file://$folder/index" "$2"
  "$folder/$1/bin/python" -m pip --disable-pip-version-check check
}

installed airflow airflow-provider-hiveacid
cd "$folder" # so that no file of this checkout is found
export AIRFLOW_HOME="$folder/home"
airflow/bin/airflow providers list --columns package_name | grep --fixed-strings airflow-provider-hiveacid
airflow/bin/hiveacid --help >/dev/null
airflow/bin/python -c 'from airflow_hiveacid.operators import HiveAcidMergeOperator'
cd - >/dev/null
installed spark hiveacid-spark
cd "$folder"
spark/bin/python -c 'from airflow_hiveacid.acid import read_table'
echo "dist/ is ready to upload:"
ls -l "$OLDPWD/dist"
