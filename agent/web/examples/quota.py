"""A quota from Python: take and wait when told to, take once though asked twice, and reserve
what is not known yet. It needs an agent with the limits of policy.yaml and no packages:
python3 quota.py [TENANT]"""

import json
import os
import sys
import time
import urllib.error
import urllib.request

DOOR = os.environ.get("QUOTALEASE", "http://127.0.0.1:7611")
TENANT = sys.argv[1] if len(sys.argv) > 1 else "acme"


def ask(path, **fields):
    """Sends a request. No agent, no answer: then nothing passes here."""
    request = urllib.request.Request(
        f"{DOOR}/v1/{path}", json.dumps(fields).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, answer.headers, json.load(answer)
    except urllib.error.HTTPError as answer:  # which is how urllib says 429
        with answer:
            return answer.code, answer.headers, json.load(answer)


def insist(name, path, **fields):
    """Asks until the answer is yes. It is never asked earlier than told, and not again if no
    time is told: then it would never pass."""
    while True:
        status, headers, answer = ask(path, tenant=TENANT, **fields)
        if status == 200:
            print(f"{name}: allowed", flush=True)
            return answer
        if status not in (429, 503):
            sys.exit(f"{name}: {answer['detail']}")
        wait = headers["Retry-After"]
        if wait is None:
            print(f"{name}: {answer['reason']}, for good", flush=True)
            return answer
        print(f"{name}: {answer['reason']}, again in {wait} s", flush=True)
        time.sleep(int(wait))


insist("two calls", "take", dimension="calls", cost=2)
insist("two more", "take", dimension="calls", cost=2)
insist("three at once", "take", dimension="calls", cost=3)

# An answer may be lost on its way. The same id at the same agent is charged once.
for _ in range(2):
    print("exports left:", insist("an export", "take", dimension="exports", id="job-17")["remaining"])

# What it costs is known afterwards. What was not used goes back.
reserved = insist("a reservation", "reserve", dimension="tokens", estimate=2000)
print("used:", ask("settle", id=reserved["id"], actual=740)[2]["actual"])
