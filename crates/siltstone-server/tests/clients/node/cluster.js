// Runs a cluster client of Node.js over three nodes: node cluster.js ioredis|redis PORT..., as cluster.py says

import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { Cluster } from "ioredis";
import { createCluster } from "redis";

const KEYS = 1000;
const NONE = /^$/;
const [library, ...ports] = process.argv.slice(2);

// Connects the client of the library, and returns what is used of it.
async function connect() {
  if (library === "ioredis") {
    const client = new Cluster([{ host: "127.0.0.1", port: Number(ports[0]) }]);
    return {
      set: (key, value) => client.set(key, value),
      get: (key) => client.get(key),
      mget: (keys) => client.mget(keys),
      evaluate: (script, keys) => client.eval(script, keys.length, ...keys),
      close: () => client.quit(),
    };
  }
  const client = await createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${ports[0]}` }] }).connect();
  return {
    set: (key, value) => client.set(key, String(value)),
    get: (key) => client.get(key),
    mget: (keys) => client.mGet(keys),
    evaluate: (script, keys) => client.eval(script, { keys }),
    close: () => client.close(),
  };
}

const client = await connect();
// A write may fail while only some nodes have the new map.
const writeAll = async (sign, failure) => {
  for (let number = 0; number < KEYS; number += 50) {
    const numbers = Array.from({ length: 50 }, (_, index) => number + index);
    const written = await Promise.allSettled(numbers.map((each) => client.set(`key:${each}`, sign * each)));
    for (const { status, reason } of written) if (status === "rejected") assert.match(String(reason), failure);
  }
};
await writeAll(1, NONE);
await client.set("{tag}a", 1);
await client.set("{tag}b", 2);
assert.deepEqual(await client.mget(["{tag}a", "{tag}b"]), ["1", "2"]);
await assert.rejects(client.evaluate("return 1", ["key:1", "key:2"]), /CROSSSLOT/);
let changed = false;
const input = createInterface({ input: process.stdin });
input.once("line", () => (changed = true));
console.log("ready");
while (!changed) await writeAll(1, /MOVED|[Tt]oo many .*redirections/);
await writeAll(-1, NONE);
for (let number = 0; number < KEYS; number++) assert.equal(Number(await client.get(`key:${number}`)) + number, 0);
input.close();
await client.close();
process.exit(0);
