#!/bin/sh
# Makes the secrets of compose.yaml in .secrets, once; what is there stays. Needs openssl.
set -eu
cd "${1:-$(dirname "$0")/..}"
umask 077
mkdir -p .secrets
# Containers read their files as other users: the directory is closed, the files in it are not.
new() {
	[ -e ".secrets/$1" ] || { printf '%s' "$2" >".secrets/$1" && chmod 0444 ".secrets/$1"; }
}
new postgres_password "$(openssl rand -hex 24)"
new database_url "postgres://fetcher:$(cat .secrets/postgres_password)@postgres:5432/fetcher?sslmode=disable"
new app_enc_key "$(openssl rand -base64 32)"
if [ ! -e .secrets/s3.env ]; then
	id=$(openssl rand -hex 10) secret=$(openssl rand -hex 20)
	printf 'AWS_ACCESS_KEY_ID=%s\nAWS_SECRET_ACCESS_KEY=%s\nROOT_ACCESS_KEY=%s\nROOT_SECRET_KEY=%s\n' "$id" "$secret" "$id" "$secret" >.secrets/s3.env
fi
echo "secrets are in .secrets; keep app_enc_key"
