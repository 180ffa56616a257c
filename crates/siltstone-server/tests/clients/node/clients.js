// Runs the ordinary use of the clients of Node.js, ioredis and redis: node clients.js PORT

import assert from "node:assert/strict";
import Redis from "ioredis";
import { createClient, WatchError } from "redis";

const port = Number(process.argv[2]);

async function ioredis() {
  const client = new Redis(port, "127.0.0.1");
  assert.equal(await client.set("key", "value", "EX", 100), "OK");
  assert.equal(await client.get("key"), "value");
  assert.equal(await client.get("absent"), null);
  assert.ok((await client.ttl("key")) > 0);
  assert.equal(await client.incrby("number", 5), 5);
  assert.deepEqual(await client.mget("key", "absent"), ["value", null]);
  await client.hset("hash", { f: "1", g: "2" });
  assert.deepEqual(await client.hgetall("hash"), { f: "1", g: "2" });
  const pipeline = client.pipeline();
  for (let number = 0; number < 500; number++) pipeline.set(`many:${number}`, number);
  assert.ok((await pipeline.exec()).every(([error, reply]) => error === null && reply === "OK"));
  const found = new Set();
  for await (const keys of client.scanStream({ match: "many:*", count: 50 })) keys.forEach((key) => found.add(key));
  assert.equal(found.size, 500);
  await client.watch("key");
  await client.duplicate().set("key", "changed");
  assert.equal(await client.multi().get("key").exec(), null);
  assert.deepEqual(await client.multi().set("key", "1").incr("key").exec(), [[null, "OK"], [null, 2]]);
  await assert.rejects(client.hget("key", "f"), /WRONGTYPE/);
  await assert.rejects(client.lpush("list", "a"), /unknown command/);
  assert.deepEqual(await client.getBuffer("key"), Buffer.from("2"));
  await client.select(3);
  assert.equal(await client.get("key"), null);
  await client.select(0);
  assert.equal(await client.flushdb(), "OK");
  await client.quit();
}

async function nodeRedis(RESP) {
  const client = await createClient({ url: `redis://127.0.0.1:${port}`, RESP }).connect();
  assert.equal(await client.set("key", "value", { EX: 100 }), "OK");
  assert.equal(await client.get("key"), "value");
  assert.equal(await client.get("absent"), null);
  assert.ok((await client.ttl("key")) > 0);
  assert.deepEqual(await client.mGet(["key", "absent"]), ["value", null]);
  await client.hSet("hash", { f: "1", g: "2" });
  assert.deepEqual({ ...(await client.hGetAll("hash")) }, { f: "1", g: "2" });
  await Promise.all(Array.from({ length: 500 }, (_, number) => client.set(`many:${number}`, number)));
  const found = new Set();
  for await (const keys of client.scanIterator({ MATCH: "many:*", COUNT: 50 })) keys.forEach((key) => found.add(key));
  assert.equal(found.size, 500);
  const other = await client.duplicate().connect();
  await client.watch("key");
  await other.set("key", "changed");
  await assert.rejects(client.multi().get("key").exec(), WatchError);
  assert.deepEqual(await client.multi().set("key", "1").incr("key").exec(), ["OK", 2]);
  await assert.rejects(client.hGet("key", "f"), /WRONGTYPE/);
  await assert.rejects(client.lPush("list", "a"), /unknown command/);
  await client.select(3);
  assert.equal(await client.get("key"), null);
  await client.select(0);
  assert.equal(await client.flushDb(), "OK");
  await other.close();
  await client.close();
}

await ioredis();
await nodeRedis(2);
await nodeRedis(3);
process.exit(0);
