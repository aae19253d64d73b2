#!/bin/bash
# python_version.sh PYTHON: fail unless that interpreter is 3.11 or newer.
set -euo pipefail
if ! "${1:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "Python 3.11 or newer is needed; name one with: make PYTHON=/path/to/python3.11 ..." >&2
  exit 1
fi
