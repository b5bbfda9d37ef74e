#!/usr/bin/env bash
# The quick check: style, imports and types on one core, the rules and the unit and property tests of what changed on
# another. "What changed" is since BASE (main); with ALL=1 all unit and property tests. Ctrl-C ends both.
set -euo pipefail
# With job control: without it whatever runs in the background ignores Ctrl-C, which some tests are about.
set -m

bin=${1:?the folder with python, ruff, lint-imports and mypy}
started=$SECONDS
output=$(mktemp)
trap 'rm -f "$output"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; wait; exit 130' INT TERM

selected=$("$bin/python" -m scripts.changed_tests --base "${BASE:-main}" ${ALL:+--all})
mapfile -t tests < <(printf '%s' "$selected")
echo "check: style, imports and types in the background; tests/rules and ${#tests[@]} files or folders of tests here"
{
  failed=0
  "$bin/ruff" check . || failed=1
  "$bin/ruff" format --check . || failed=1
  "$bin/lint-imports" --no-logo || failed=1
  "$bin/mypy" src testkit tests bench scripts || failed=1
  exit "$failed"
} >"$output" 2>&1 &
static=$!
worst=0
"$bin/python" -m pytest -q tests/rules "${tests[@]}" || worst=$?
ended=0
wait "$static" || ended=$?
cat "$output"
echo "check: tests ended with $worst, style, imports and types with $ended, after $((SECONDS - started)) s"
exit $((ended > worst ? ended : worst))
