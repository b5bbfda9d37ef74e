#!/usr/bin/env bash
# Crawls one page with nothing but curl: submit, wait, download the items.
#
#   CRAWLFLEET_URL=http://127.0.0.1:8000 CRAWLFLEET_TOKEN=... ./crawl_with_curl.sh http://127.0.0.1:8001/products
set -euo pipefail

page=$1
api="$CRAWLFLEET_URL/api/v1"
call() { curl --silent --show-error --fail-with-body --header "Authorization: Bearer $CRAWLFLEET_TOKEN" "$@"; }
# The value of a text field; jq does this better where it is installed.
field() { grep -o "\"$1\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }

body="{\"task_type\": \"web_crawl\", \"parameters\": {\"url\": \"$page\", \"selectors\":
  {\"product\": \"div.product\", \"title\": \"h2.title\", \"price\": \"span.price\"}}}"
# The key makes it safe to send the same request again when the answer was lost.
task=$(call --header 'Content-Type: application/json' --header "Idempotency-Key: $(date +%s%N)" \
  --data "$body" "$api/tasks" | field id)

while :; do
  status=$(call "$api/tasks/$task" | field status)
  case $status in
    completed) break ;;
    failed | timeout | cancelled) echo "$task: $status: $(call "$api/tasks/$task/why" | field sentence)" >&2; exit 1 ;;
  esac
  sleep 0.2
done
call "$api/tasks/$task/results:download"
