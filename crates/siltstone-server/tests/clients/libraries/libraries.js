// Runs libraries of npm that use Redis, with their default settings: node libraries.js PORT. What a library does here is
// its ordinary use. bullmq is expected to fail with the command that the server does not have.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { Redis } from "ioredis";
import { createClient } from "redis";

const port = Number(process.argv[2]);
const url = `redis://127.0.0.1:${port}`;

async function withRedis(use) {
  const client = createClient({ url });
  await client.connect();
  try {
    await use(client);
  } finally {
    await client.close();
  }
}

async function withIoredis(use) {
  const client = new Redis(port);
  try {
    await use(client);
  } finally {
    client.disconnect();
  }
}

const LIBRARIES = {
  async keyv() {
    const { default: Keyv } = await import("keyv");
    const { default: KeyvRedis } = await import("@keyv/redis");
    const store = new Keyv(new KeyvRedis(url), { namespace: "keyv" });
    await store.set("a", { b: 1 }, 10_000);
    assert.deepEqual(await store.get("a"), { b: 1 });
    assert.equal(await store.delete("a"), true);
    await store.set("c", 1);
    await store.clear();
    assert.equal(await store.get("c"), undefined);
    await store.disconnect();
  },

  async connectRedis() {
    const { RedisStore } = await import("connect-redis");
    await withRedis(async (client) => {
      const store = new RedisStore({ client });
      await store.set("session", { cookie: {}, user: 7 });
      assert.equal((await store.get("session")).user, 7);
      assert.equal(await store.length(), 1);
      await store.touch("session", { cookie: {} });
      await store.destroy("session");
      assert.equal(await store.get("session"), null);
    });
  },

  async unstorage() {
    const { createStorage } = await import("unstorage");
    const { default: driver } = await import("unstorage/drivers/redis");
    const storage = createStorage({ driver: driver({ url, base: "unstorage" }) });
    await storage.setItem("a:b", { c: 1 });
    assert.deepEqual(await storage.getItem("a:b"), { c: 1 });
    assert.deepEqual(await storage.getKeys(), ["a:b"]);
    await storage.clear();
    await storage.dispose();
  },

  async rateLimitRedis() {
    const { RedisStore } = await import("rate-limit-redis");
    await withRedis(async (client) => {
      const store = new RedisStore({ sendCommand: (...words) => client.sendCommand(words) });
      await store.init({ windowMs: 10_000 });
      assert.equal((await store.increment("user")).totalHits, 1);
      assert.equal((await store.increment("user")).totalHits, 2);
      await store.decrement("user");
      assert.equal((await store.get("user")).totalHits, 1);
      await store.resetKey("user");
    });
  },

  async rateLimiterFlexible() {
    const { RateLimiterRedis } = await import("rate-limiter-flexible");
    await withIoredis(async (storeClient) => {
      const limiter = new RateLimiterRedis({ storeClient, points: 2, duration: 10 });
      await limiter.consume("user");
      await limiter.consume("user");
      await assert.rejects(limiter.consume("user"), (rejected) => rejected.msBeforeNext > 0);
      await limiter.delete("user");
    });
  },

  async redlock() {
    const { default: Redlock } = await import("redlock");
    await withIoredis(async (client) => {
      const locks = new Redlock([client], { retryCount: 0 });
      const lock = await locks.lock("job", 5_000);
      await assert.rejects(locks.lock("job", 5_000));
      await lock.extend(5_000);
      await lock.unlock();
    });
  },

  async socketIoAdapter() {
    const { Server } = await import("socket.io");
    const { createAdapter } = await import("@socket.io/redis-adapter");
    await withRedis(async (one) => {
      const other = one.duplicate();
      await other.connect();
      const servers = [createServer(), createServer()];
      const nodes = servers.map((server) => new Server(server, { adapter: createAdapter(one, other) }));
      const heard = new Promise((resolve) => nodes[1].on("hello", resolve));
      await pause(50);
      nodes[0].serverSideEmit("hello", "world");
      assert.equal(await heard, "world");
      nodes.forEach((node) => node.close());
      await other.close();
    });
  },

  async bullmq() {
    const { Queue } = await import("bullmq");
    const queue = new Queue("jobs", { connection: { port, maxRetriesPerRequest: 1 } });
    queue.on("error", () => {});
    await assert.rejects(queue.add("job", {}), /not in KEYS|[Uu]nknown/);
    await queue.close();
  },
};

for (const [name, use] of Object.entries(LIBRARIES)) {
  await use();
  console.log(`Node.js, ${name}: ${name === "bullmq" ? "needs lists, sorted sets and streams" : "passed"}`);
}
process.exit(0);
