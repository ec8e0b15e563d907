#!/bin/sh
# A quota from a shell: take and wait when told to, take once though asked twice, and reserve
# what is not known yet. It needs curl and an agent with the limits of policy.yaml:
# sh quota.sh [TENANT]
set -eu
door=${QUOTALEASE:-http://127.0.0.1:7611}
tenant=${1:-acme}
answer=$(mktemp -d)
trap 'rm -r "$answer"' EXIT

# ask PATH BODY sends a request, and sets status. No agent, no answer: then nothing passes here.
ask() {
	status=$(curl -sS --max-time 5 -o "$answer/body" -D "$answer/head" -w '%{http_code}' \
		-H 'Content-Type: application/json' -d "$2" "$door/v1/$1")
}

# member NAME and header NAME are parts of the answer.
member() { sed -n 's/.*"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/p' "$answer/body"; }
header() { tr -d '\r' <"$answer/head" | awk -F': ' -v name="$1" 'tolower($1) == name { print $2 }'; }

# insist NAME PATH BODY asks until the answer is yes. It is never asked earlier than told, and not
# again if no time is told: then it would never pass.
insist() {
	while ask "$2" "$3"; do
		case $status in
		200)
			echo "$1: allowed"
			return
			;;
		429 | 503)
			wait=$(header retry-after)
			if [ -z "$wait" ]; then
				echo "$1: $(member reason), for good"
				return
			fi
			echo "$1: $(member reason), again in $wait s"
			sleep "$wait"
			;;
		*)
			echo "$1: $(member detail)" >&2
			exit 1
			;;
		esac
	done
}

insist 'two calls' take "{\"tenant\":\"$tenant\",\"dimension\":\"calls\",\"cost\":2}"
insist 'two more' take "{\"tenant\":\"$tenant\",\"dimension\":\"calls\",\"cost\":2}"
insist 'three at once' take "{\"tenant\":\"$tenant\",\"dimension\":\"calls\",\"cost\":3}"

# An answer may be lost on its way. The same id at the same agent is charged once.
for _ in 1 2; do
	insist 'an export' take "{\"tenant\":\"$tenant\",\"dimension\":\"exports\",\"id\":\"job-17\"}"
	echo "exports left: $(member remaining)"
done

# What it costs is known afterwards. What was not used goes back.
insist 'a reservation' reserve "{\"tenant\":\"$tenant\",\"dimension\":\"tokens\",\"estimate\":2000}"
ask settle "{\"id\":\"$(member id)\",\"actual\":740}"
echo "used: $(member actual)"
