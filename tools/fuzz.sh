#!/bin/sh
# Fuzzes everything that parses what a caller sends, one target after the other, each for FUZZTIME.
set -eu
while read -r package target; do
	go test -tags nomsgpack -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-60s}" "./$package"
done <<TARGETS
handlers FuzzQuery
handlers FuzzBody
handlers FuzzPatch
handlers FuzzParseRange
auth FuzzParseBearer
idempotency FuzzParseKey
jobs FuzzParseRequest
TARGETS
