// A quota from Node: take and wait when told to, take once though asked twice, and reserve what
// is not known yet. It needs an agent with the limits of policy.yaml, Node 18 and no packages:
// node quota.mjs [TENANT]

import { setTimeout as sleep } from "node:timers/promises";

const door = process.env.QUOTALEASE ?? "http://127.0.0.1:7611";
const tenant = process.argv[2] ?? "acme";

// ask sends a request. No agent, no answer: then nothing passes here.
async function ask(path, fields) {
  const response = await fetch(`${door}/v1/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(fields),
    signal: AbortSignal.timeout(5000),
  });
  return { status: response.status, headers: response.headers, answer: await response.json() };
}

// insist asks until the answer is yes. It is never asked earlier than told, and not again if no
// time is told: then it would never pass.
async function insist(name, path, fields) {
  for (;;) {
    const { status, headers, answer } = await ask(path, { tenant, ...fields });
    if (status === 200) {
      console.log(`${name}: allowed`);
      return answer;
    }
    if (status !== 429 && status !== 503) throw new Error(`${name}: ${answer.detail}`);
    const wait = headers.get("Retry-After");
    if (wait === null) {
      console.log(`${name}: ${answer.reason}, for good`);
      return answer;
    }
    console.log(`${name}: ${answer.reason}, again in ${wait} s`);
    await sleep(1000 * Number(wait));
  }
}

await insist("two calls", "take", { dimension: "calls", cost: 2 });
await insist("two more", "take", { dimension: "calls", cost: 2 });
await insist("three at once", "take", { dimension: "calls", cost: 3 });

// An answer may be lost on its way. The same id at the same agent is charged once.
for (let i = 0; i < 2; i++) {
  const { remaining } = await insist("an export", "take", { dimension: "exports", id: "job-17" });
  console.log(`exports left: ${remaining}`);
}

// What it costs is known afterwards. What was not used goes back.
const { id } = await insist("a reservation", "reserve", { dimension: "tokens", estimate: 2000 });
console.log(`used: ${(await ask("settle", { id, actual: 740 })).answer.actual}`);
