#!/bin/sh
# Fuzzes everything that parses what a caller sends, two targets at a time, each for FUZZTIME.
# An input that fails is written below the package's testdata/fuzz and ends the run. The engine itself can also fail, by
# missing its own deadline at the end; then there is no such input, and the run goes on.
set -eu
if [ $# -eq 2 ]; then # one target
	package=$1 target=$2
	began=$(mktemp)
	trap 'rm -f "$began"' EXIT
	go test -tags nomsgpack -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-60s}" -parallel 1 "./$package" && exit 0
	found=$(find "$package/testdata/fuzz/$target" -type f -newer "$began" 2>/dev/null || true)
	[ -z "$found" ] || exit 1
	go test -tags nomsgpack -run "^$target\$" "./$package"
	echo "$package $target: the fuzzing engine failed without an input" >&2
	exit 0
fi
xargs -P 2 -L 1 "$0" <<TARGETS
handlers FuzzQuery
handlers FuzzBody
handlers FuzzPatch
handlers FuzzParseRange
handlers FuzzDecodeStrict
auth FuzzParseBearer
idempotency FuzzParseKey
jobs FuzzParseRequest
documents/weburl FuzzURL
documents/weburl FuzzPrefix
TARGETS
