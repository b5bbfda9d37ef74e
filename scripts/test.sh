#!/usr/bin/env bash
# All tests, in three parts side by side: what computes or is short, what talks to databases (and chaos after it), and
# what mostly waits for processes, leases and faults. The output of the first two is shown when all have ended. Ctrl-C
# ends all of them.
set -euo pipefail
# With job control: without it whatever runs in the background ignores Ctrl-C, which some tests are about.
set -m

python=${1:?the Python to run them with}
shown=$(mktemp -d)
trap 'rm -rf "$shown"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; wait; exit 130' INT TERM

waiting=(tests/processes)
talking=(tests/integration tests/contract)
computing=()
for folder in tests/*/; do
  folder=${folder%/}
  [[ " ${waiting[*]} ${talking[*]} tests/chaos " == *" $folder "* || $folder == *__pycache__ ]] || computing+=("$folder")
done

echo "tests: ${computing[*]}, and ${talking[*]}, in the background; ${waiting[*]} here"
"$python" -m pytest "${computing[@]}" >"$shown/computing" 2>&1 &
first=$!
"$python" -m pytest "${talking[@]}" tests/chaos >"$shown/talking" 2>&1 &
second=$!
worst=0
"$python" -m pytest "${waiting[@]}" || worst=$?
for part in "computing $first" "talking $second"; do
  read -r name process <<<"$part"
  ended=0
  wait "$process" || ended=$?
  cat "$shown/$name"
  echo "tests: $name ended with $ended"
  worst=$((ended > worst ? ended : worst))
done
exit "$worst"
