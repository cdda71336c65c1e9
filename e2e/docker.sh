#!/usr/bin/env bash
# Runs a command that needs Docker: e2e/docker.sh go test ./e2e/docker
# It uses the engine that runs, else starts a private one that needs nothing of the
# host's network and ends with the command. It removes what the command leaves behind,
# however the command ended.
set -euo pipefail

fail() {
	echo "e2e: $*" >&2
	exit 1
}

command -v docker >/dev/null || fail "there is no docker command; apt-get install docker.io docker-compose"
docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null ||
	fail "there is no Docker Compose; apt-get install docker-compose"

dir=
engine_ends() {
	[ -n "$dir" ] || return 0
	local pid
	if pid=$(cat "$dir/docker.pid" 2>/dev/null) && kill "$pid" 2>/dev/null; then
		for _ in $(seq 300); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
		kill -9 "$pid" 2>/dev/null || true
	fi
	local mount
	awk -v under="$dir/" 'index($2, under) == 1 {print $2}' /proc/mounts | sort -r | while read -r mount; do
		umount -l "$mount" || true
	done
	rm -rf "$dir"
}
clean() {
	local left kept=
	trap '' INT TERM
	left=$(docker ps -aq --filter label=com.docker.compose.project=homeward-e2e 2>/dev/null) || true
	[ -z "$left" ] || docker rm -f -v $left >/dev/null 2>&1 || true
	for what in network volume; do
		left=$(docker $what ls -q --filter label=com.docker.compose.project=homeward-e2e 2>/dev/null) || true
		[ -z "$left" ] || docker $what rm $left >/dev/null 2>&1 || true
	done
	# An engine that takes a network for one in use leaves its bridge behind, whose addresses the next
	# engine needs.
	[ -z "$dir" ] || kept=$(docker network ls -q --filter label=com.docker.compose.project=homeward-e2e 2>/dev/null) || true
	engine_ends
	for left in $kept; do
		ip link delete "br-$left" 2>/dev/null || true
	done
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if ! docker info >/dev/null 2>&1; then
	[ "$(id -u)" = 0 ] || fail "no Docker engine answers at ${DOCKER_HOST:-/var/run/docker.sock}; start one, or run this as root, which starts a private one"
	command -v dockerd >/dev/null || fail "no Docker engine answers and there is no dockerd; apt-get install docker.io"
	dir=$(mktemp -d /var/tmp/homeward-docker.XXXXXX) # short: a socket's path has at most 108 bytes
	export DOCKER_HOST=unix://$dir/docker.sock
	# A session of its own, so that Ctrl-C reaches the command first.
	setsid dockerd --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/docker.pid" -H "$DOCKER_HOST" \
		--iptables=false --ip6tables=false --ip-forward=false --ip-masq=false --bridge=none \
		>"$dir/dockerd.log" 2>&1 </dev/null &
	started=$!
	for _ in $(seq 300); do
		docker info >/dev/null 2>&1 && break
		kill -0 "$started" 2>/dev/null || break
		sleep 0.1
	done
	docker info >/dev/null 2>&1 || fail "no Docker engine answers and none could be started here; dockerd says: $(grep -E 'level=(error|fatal)|failed' "$dir/dockerd.log" | tail -n 1)"
fi

"$@"
