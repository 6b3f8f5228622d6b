#!/bin/sh
# Installs the servers that the tests run for themselves, when they are missing: MariaDB and RabbitMQ. Says nothing and
# does nothing when they are there. None of them is started as a service.
set -eu
PATH=$PATH:/usr/sbin
missing=
command -v mariadbd >/dev/null 2>&1 || missing="$missing mariadb-server mariadb-client"
command -v rabbitmq-server >/dev/null 2>&1 || missing="$missing rabbitmq-server"
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null 2>&1; then
	echo "tests that need these will be skipped:$missing" >&2
	exit 0
fi
sudo=; [ "$(id -u)" -eq 0 ] || sudo=sudo
# In run level 1 the packages' scripts start no service.
# shellcheck disable=SC2086 # one word each
$sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $missing >&2
