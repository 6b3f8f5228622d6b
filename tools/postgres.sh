#!/bin/sh
# Installs PostgreSQL with the system's package manager when no server is to be found.
# Says nothing and does nothing when there is one.
set -eu
command -v initdb >/dev/null 2>&1 && exit 0
for dir in /usr/lib/postgresql/*/bin; do [ -x "$dir/initdb" ] && exit 0; done
if ! command -v apt-get >/dev/null 2>&1; then
	echo "PostgreSQL's initdb was not found; install PostgreSQL 15 or newer and run this again" >&2
	exit 1
fi
sudo=; [ "$(id -u)" -eq 0 ] || sudo=sudo
# The distribution's package would start a cluster of its own; ours are started by whoever needs one.
$sudo mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" | $sudo tee /etc/postgresql-common/createcluster.conf >/dev/null
$sudo apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Options::=--force-confold --no-install-recommends postgresql postgresql-client >&2
