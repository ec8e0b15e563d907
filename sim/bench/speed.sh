#!/usr/bin/env bash
# Measures everything on this machine, which should do nothing else, and writes it where one reads
# of it: the README's table and chart, and PERFORMANCE.md. It takes about twenty minutes. The
# reports with charts, and all that was measured, are in the folder that it names.
#
#   sim/bench/speed.sh                               as the documents tell
#   ROUNDS=2 TIME=1s KEYS=20000 sim/bench/speed.sh   sooner; what is shorter sees too few transactions
set -euo pipefail
cd "$(dirname "$0")"
out=$(mktemp -d)
echo "all that is measured goes to $out" >&2
at=$(git rev-parse --short HEAD)
(cd ../.. && go build -o "$out/quotalease" ./cmd/quotalease)
env -u QUOTALEASE_DATABASE_URL "$out/quotalease" bench --rounds "${ROUNDS:-5}" --time "${TIME:-2s}" -o json \
	--report "$out/grants.html" --chart speed.svg >"$out/grants.json"
go run . -rounds "${ROUNDS:-5}" -time "${TIME:-500ms}" -keys "${KEYS:-1000000}" -json "$out/takes.json" -html "$out/takes.html" \
	-tell "$out/grants.json" -at "$at"
