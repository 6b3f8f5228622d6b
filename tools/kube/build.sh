#!/bin/sh
# Builds the programs of a Kubernetes control plane with simulated nodes, and helm, from Go modules, and prints the
# folder they are in. They are built once into the user's cache, for each content of the go.mod and go.sum files they are
# built from: the first time takes a quarter of an hour, every other time nothing. KUBE_BUILD_FLAGS are more flags
# for `go build`.
set -eu
cd "$(dirname "$0")"
# The folders of the modules; helm is the one that the chart's other tests run.
modules="etcd ../chart kwok kubernetes"

# The programs of Kubernetes ask the linker for their version, and helm asks them for it.
version=$(sed -n 's/^.*k8s.io\/kubernetes \(v[0-9.]*\).*$/\1/p' kubernetes/go.mod)
minor=${version#v1.}
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	flags="$flags -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
done

hash=$({ echo "$flags"; for m in $modules; do cat "$m/go.mod" "$m/go.sum"; done; } | { sha256sum 2>/dev/null || shasum -a 256; } | cut -c1-16)
all="${XDG_CACHE_HOME:-$HOME/.cache}/fetcher/kube"
bin="$all/$hash"
mkdir -p "$bin"
for m in $modules; do
	name=$(basename "$m")
	[ -e "$bin/$name.built" ] && continue
	# Into a folder of its own first, so that a build cut short leaves nothing that looks finished.
	tmp=$(mktemp -d "$bin/$name.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT INT TERM
	echo "building what $name/go.mod names (once: it is kept in $all)" >&2
	start=$(date +%s)
	# What go.mod names as its tools.
	programs=$(sed -n 's/^tool \([^(]*\)$/\1/p; /^tool ($/,/^)$/s/^	//p' "$m/go.mod")
	# shellcheck disable=SC2086 # one word each
	(cd "$m" && nice -n 19 go build ${KUBE_BUILD_FLAGS:-} -ldflags "$flags" -o "$tmp/" $programs) >&2
	# Its package is named after the server's module.
	[ ! -e "$tmp/server" ] || mv "$tmp/server" "$tmp/etcd"
	mv "$tmp"/* "$bin/"
	rmdir "$tmp"
	: >"$bin/$name.built"
	echo "built it in $(($(date +%s) - start)) s" >&2
done
echo "$bin"
