#!/bin/sh
# What the tests of the documentation page need: its bundle and a browser. Without one of them the test says so and is
# skipped, therefore nothing here is an error.
set -u
cd "$(dirname "$0")/.."
if [ ! -s handlers/assets/standalone.js ]; then
	if command -v npm >/dev/null 2>&1; then
		make --no-print-directory assets >/dev/null || echo "the documentation page's bundle could not be fetched" >&2
	else
		echo "the documentation page is tested without its bundle: npm was not found" >&2
	fi
fi
missing=
for tool in chromium curl jq; do
	command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
done
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null 2>&1; then
	echo "tests that need these will be skipped:$missing" >&2
	exit 0
fi
sudo=; [ "$(id -u)" -eq 0 ] || sudo=sudo
# shellcheck disable=SC2086 # one word each
{ $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2; } ||
	echo "tests that need these will be skipped:$missing" >&2
exit 0
