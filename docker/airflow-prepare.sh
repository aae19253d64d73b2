#!/bin/bash
# Runs once before Airflow's components: makes or upgrades the database, and writes the log-in of
# the user `admin` where only this user reads it. The password comes by the environment, so it
# stands in no command line.
set -euo pipefail
airflow db migrate
umask 077
python - <<'PYTHON'
import json
import os
import pathlib

file = pathlib.Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
file.write_text(json.dumps({"admin": os.environ["AIRFLOW_ADMIN_PASSWORD"]}))
PYTHON
echo "log in at http://localhost:8080 as admin"
