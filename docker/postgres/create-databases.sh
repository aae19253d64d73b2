#!/bin/bash
# Runs once, when PostgreSQL's data directory is made: one database and one user per service. psql
# reads the passwords from the environment, so they stand in no command line.
set -euo pipefail
psql --username "$POSTGRES_USER" --set ON_ERROR_STOP=1 --quiet <<'SQL'
\getenv metastore_password METASTORE_DB_PASSWORD
\getenv airflow_password AIRFLOW_DB_PASSWORD
CREATE ROLE hive LOGIN PASSWORD :'metastore_password';
CREATE DATABASE metastore OWNER hive;
CREATE ROLE airflow LOGIN PASSWORD :'airflow_password';
CREATE DATABASE airflow OWNER airflow;
SQL
