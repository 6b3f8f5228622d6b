#!/bin/sh
# Builds the static binary of the image into the directory given: the Dockerfile and its test run this very script.
set -eu
out=${1:?"usage: tools/dist.sh DIRECTORY"}
cd "$(dirname "$0")/.."
mkdir -p "$out"
CGO_ENABLED=0 go build -trimpath -tags nomsgpack \
	-ldflags "-s -w -X main.version=${VERSION:-dev} -X main.commit=${COMMIT:-none}" -o "$out/fetcher" ./cmd/fetcher
