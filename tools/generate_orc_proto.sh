#!/usr/bin/env bash
# Writes airflow_hiveacid/storage/orc/gen/orc_acid_pb2.py and .pyi from ../orc_acid.proto.
#
# The compiler is old on purpose (protoc 25): its output runs on protobuf 4.25 and later, since the
# output does not check the run-time version. A cluster has its own protobuf. Code from a newer
# compiler refuses an older run time, and warns if the run time is a major version ahead.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet 'grpcio-tools==1.62.3' 'setuptools<81'

cd "$root"
# The mapped path is the name in protobuf's process-wide pool, so it must be unique.
"$work/venv/bin/python" -m grpc_tools.protoc \
    --proto_path=airflow_hiveacid/storage/orc/gen=airflow_hiveacid/storage/orc \
    --python_out=. --pyi_out=. airflow_hiveacid/storage/orc/gen/orc_acid.proto
