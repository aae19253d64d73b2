#!/bin/bash
# system_packages.sh base|test|pages: ensure that the programs which this project starts are there.
#
# "base" is for the demo, "test" adds the programs of the tests, "pages" adds a browser. It looks for
# programs, not packages, so a JDK from elsewhere is fine. As root it installs Debian's packages;
# otherwise it prints the missing packages and fails.
set -euo pipefail
tier="${1:?base, test or pages}"
missing=()

has_postgres() { compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || command -v postgres >/dev/null; }
# Daemons are in folders that are not on most users' path.
has_daemon() { PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null; }
has_venv() { "${PYTHON:-python3}" -c 'import ensurepip, venv' 2>/dev/null; }

command -v mvn >/dev/null || missing+=(maven)
command -v java >/dev/null || missing+=(openjdk-17-jdk-headless)
if [ ! -x .venv/bin/python ] || [ ! -x .venv-spark/bin/python ]; then
  has_venv || missing+=(python3-venv)
fi
if [ "$tier" = test ]; then
  command -v javac >/dev/null || missing+=(openjdk-17-jdk-headless)
  has_postgres || missing+=(postgresql)
  has_daemon krb5kdc || missing+=(krb5-kdc)
  has_daemon kadmin.local || missing+=(krb5-admin-server)
  has_daemon kinit || missing+=(krb5-user)
  has_daemon slapd || missing+=(slapd)
  has_daemon openssl || missing+=(openssl)
fi
if [ "$tier" = pages ]; then
  command -v chromium chromium-browser google-chrome >/dev/null || missing+=(chromium)
fi

[ "${#missing[@]}" -eq 0 ] && exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "installing Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
else
  echo "these Debian packages (or their equivalents) are missing: ${missing[*]}" >&2
  echo "install them first: sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
