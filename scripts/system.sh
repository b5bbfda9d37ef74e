#!/usr/bin/env bash
# What only the operating system can give: checked here, and installed through apt-get where we may.
# With CI=true a missing part is a failure; otherwise this says what is missing and how to get it.
set -euo pipefail

PYTHON="${PYTHON:-python3}"
missing=()
apt_is_fresh=no

may_install() { [[ $(id -u) -eq 0 ]] && command -v apt-get >/dev/null; }

apt_install() {
  if [[ $apt_is_fresh == no ]]; then
    apt-get update -qq || return 1
    apt_is_fresh=yes
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

# need <what for> <check> <hint> [apt package...]
need() {
  local what=$1 check=$2 hint=$3
  shift 3
  "$check" && return 0
  if (($# > 0)) && may_install; then
    echo "system: installing $* ($what)" >&2
    apt_install "$@" >&2 && "$check" && return 0
  fi
  missing+=("$what"$'\n'"    hint: $hint")
}

has_python() { "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
has_venv() { "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; }
has_sqlite() { "$PYTHON" -c 'import sqlite3, sys; sys.exit(sqlite3.sqlite_version_info < (3, 35))' 2>/dev/null; }

need "Python 3.11 or newer (looked at: $PYTHON)" has_python "name another one: make PYTHON=python3.12 setup"
need "Python's venv module" has_venv "apt-get install python3-venv" python3-venv
need "SQLite 3.35 or newer in Python's sqlite3 module" has_sqlite "use a Python built against a newer SQLite"

if [[ ${BENCH:-} == true ]]; then
  has_wrk() { command -v wrk >/dev/null; }
  need "wrk, which drives single submits and a site of pages in the benchmarks" has_wrk "apt-get install wrk" wrk
fi

if ((${#missing[@]} == 0)); then
  exit 0
fi
echo "system: missing on this machine:" >&2
printf '  - %s\n' "${missing[@]}" >&2
[[ ${CI:-} != true ]]
