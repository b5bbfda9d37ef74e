#!/usr/bin/env bash
# All tests, in two halves side by side: what computes, and what mostly waits for processes, leases and faults.
# The output of the first half is shown when both have ended. Ctrl-C ends both.
set -euo pipefail

python=${1:?the Python to run them with}
shown=$(mktemp)
trap 'rm -f "$shown"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; wait; exit 130' INT TERM

waiting=(tests/integration tests/processes tests/chaos)
computing=()
for folder in tests/*/; do
  folder=${folder%/}
  [[ " ${waiting[*]} " == *" $folder "* || $folder == *__pycache__ ]] || computing+=("$folder")
done

echo "tests: ${computing[*]} in the background, ${waiting[*]} here"
"$python" -m pytest "${computing[@]}" >"$shown" 2>&1 &
first=$!
second=0
"$python" -m pytest "${waiting[@]}" || second=$?
ended=0
wait "$first" || ended=$?
cat "$shown"
echo "tests: ${computing[*]} ended with $ended; ${waiting[*]} with $second"
exit $((ended > second ? ended : second))
