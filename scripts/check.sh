#!/usr/bin/env bash
# The quick check: style, imports, types and the property tests of what changed on one core, the rules and its unit
# tests on another. "What changed" is since BASE (main); with ALL=1 all unit and property tests. Ctrl-C ends both.
set -euo pipefail
# With job control: without it whatever runs in the background ignores Ctrl-C, which some tests are about.
set -m

bin=${1:?the folder with python, ruff, lint-imports and mypy}
started=$SECONDS
output=$(mktemp)
trap 'rm -f "$output"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; wait; exit 130' INT TERM

selected=$("$bin/python" -m scripts.changed_tests --base "${BASE:-main}" ${ALL:+--all})
mapfile -t tests < <(printf '%s' "$selected" | grep -v '^tests/property' || true)
mapfile -t property_tests < <(printf '%s' "$selected" | grep '^tests/property' || true)
echo "check: style, imports, types and ${#property_tests[@]} files or folders of property tests in the background;"
echo "check: tests/rules and ${#tests[@]} files or folders of unit tests here"
{
  failed=0
  "$bin/ruff" check . || failed=1
  "$bin/ruff" format --check . || failed=1
  "$bin/lint-imports" --no-logo || failed=1
  "$bin/mypy" src testkit tests bench scripts || failed=1
  if [ ${#property_tests[@]} -gt 0 ]; then
    "$bin/python" -m pytest -q "${property_tests[@]}" || failed=1
  fi
  exit "$failed"
} >"$output" 2>&1 &
background=$!
worst=0
"$bin/python" -m pytest -q tests/rules "${tests[@]}" || worst=$?
ended=0
wait "$background" || ended=$?
cat "$output"
echo "check: the tests here ended with $worst, the background with $ended, after $((SECONDS - started)) s"
exit $((ended > worst ? ended : worst))
