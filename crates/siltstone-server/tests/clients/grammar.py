"""Random commands whose replies are determined by the commands before them.

Not among them: what depends on the machine or on chance (TIME, INFO, RANDOMKEY, HRANDFIELD), and what Siltstone answers on
purpose in another way (COPY with DB, OBJECT ENCODING of hashes, CONFIG SET, strings above 256 MiB).
"""

import time

KEYS = [b"a", b"b", b"c", b"d", b"e", b"f", b"k\x00\r\n", b"{x}1"]
FIELDS = [b"f", b"g", b"h", b"", b"i\xff"]
NUMBERS = [b"0", b"1", b"-1", b"7", b"10", b"-10", b"100", b"9223372036854775807", b"-9223372036854775808"]
BAD_NUMBERS = [b"", b"a", b"1.5", b" 1", b"+1", b"01", b"-0", b"9223372036854775808", b"1e3", b"0x10"]
FLOATS = [b"0", b"1", b"-1.5", b"0.1", b"2.5e3", b"1e-3", b"10.25", b"-0.75", b"5.0e3", b".5", b"3."]
BAD_FLOATS = [b"", b"a", b"1,5", b"nan", b"1.5x", b" 1", b"1 ", b"0x", b"--1"]
VALUES = [b"", b"x", b"hello", b"Hello World", b"\x00\xff\r\n", b"10", b"-3", b"3.25", b"v" * 100, b"\xf0\x0f\xaa"]
PATTERNS = [b"*", b"?", b"a*", b"[a-c]", b"[^a]", b"k*", b"\\a", b"{x}*", b"*[", b"", b"[a-", b"[b-a]", b"\\"]
BITS = [b"0", b"1", b"7", b"8", b"100", b"-1", b"4294967296", b"a", b"1000"]
# What Siltstone does not queue: commands that may take long, and those that change the database.
OUTSIDE = (b"keys", b"flushdb", b"select")


class Grammar:
    """Makes commands. The same seed makes the same commands, but for absolute times of expiry."""

    def __init__(self, random):
        self.random = random
        self.now_s = int(time.time())
        self.rows = [getattr(self, name) for name in dir(self) if name.startswith("of_")]
        self.in_transaction = False

    def batch(self, commands):
        """Returns commands, and whether the time that the last ones have set must pass before the next batch."""
        # Redis counts keys that have expired until it sees them.
        counts = [[b"exists", *KEYS], [b"dbsize"]] if not self.in_transaction else []
        batch = counts + [self.command() for _ in range(commands)]
        passes = not self.in_transaction and self.random.random() < 0.2
        if passes:
            batch += self.some(lambda: self.pick([[b"pexpire", self.key(), b"3"], [b"psetex", self.key(), b"3", b"x"],
                                                  [b"getex", self.key(), b"PX", b"3"], [b"watch", self.key()],
                                                  [b"set", self.key(), b"x", b"PX", b"3"]]))
        return batch, passes

    def command(self):
        words = self.pick(self.rows)()
        while self.in_transaction and words[0] in OUTSIDE:
            words = self.pick(self.rows)()
        if self.random.random() < 0.02:
            # Too many or too few words.
            words = words[:-1] if self.random.random() < 0.5 and len(words) > 1 else [*words, b"extra"]
        if self.random.random() < 0.1:
            words[0] = words[0].upper()
        name = words[0].lower()
        if name == b"exec" or len(words) == 1 and name in (b"multi", b"discard"):
            self.in_transaction = name == b"multi"
        return words

    def pick(self, values):
        return self.random.choice(values)

    def some(self, make, most=4):
        return [make() for _ in range(self.random.randint(1, most))]

    def key(self):
        return self.pick(KEYS)

    def field(self):
        return self.pick(FIELDS)

    def value(self):
        return self.pick(VALUES + NUMBERS[:5] + FLOATS[:4])

    def number(self):
        return self.pick(NUMBERS * 3 + BAD_NUMBERS)

    def small(self):
        return self.pick([b"0", b"1", b"-1", b"2", b"-3", b"5", b"-100", b"100", b"a", b"9223372036854775807",
                          b"-9223372036854775808"])

    def float(self):
        return self.pick(FLOATS * 3 + BAD_FLOATS + NUMBERS)

    def word_case(self, word):
        return word.lower() if self.random.random() < 0.3 else word

    def expiry(self):
        """Returns a unit of SET and GETEX, and a number."""
        unit = self.pick([b"EX", b"PX", b"EXAT", b"PXAT"])
        return [self.word_case(unit), self.time(unit)]

    def time(self, unit):
        if self.random.random() < 0.15:
            # None that passes while the commands run.
            return self.pick(NUMBERS[-2:] + BAD_NUMBERS + [b"0", b"-1"])
        if unit.endswith(b"AT"):
            at = self.now_s + self.pick([-1000, 100, 1000, 100_000])
            return b"%d" % (at if unit == b"EXAT" else at * 1000)
        seconds = self.pick([50, 100, 1000, 100_000])
        if unit == b"PX":
            return b"%d" % (seconds * 1000)
        return b"%d" % seconds

    # Strings

    def of_set(self):
        words = [b"set", self.key(), self.value()]
        for _ in range(self.random.choice([0, 0, 1, 1, 2, 3])):
            words += self.pick([
                lambda: [self.word_case(self.pick([b"NX", b"XX", b"GET", b"KEEPTTL"]))],
                self.expiry,
                lambda: [self.pick([b"NX", b"XX", b"GET", b"KEEPTTL", b"PERSIST", b"EX", b"bad"])],
            ])()
        return words

    def of_plain_set(self):
        return [b"set", self.key(), self.value()]

    def of_get(self):
        return [self.pick([b"get", b"getdel", b"strlen", b"dump", b"type", b"hgetall"]), self.key()]

    def of_getex(self):
        options = self.pick([lambda: [], lambda: [b"PERSIST"], self.expiry, lambda: [b"PERSIST", b"EX", b"5"],
                             lambda: [self.pick([b"EX", b"NX", b"KEEPTTL"])]])
        return [b"getex", self.key(), *options()]

    def of_set_relatives(self):
        return [self.pick([b"getset", b"setnx", b"append"]), self.key(), self.value()]

    def of_setex(self):
        name, unit = self.pick([(b"setex", b"EX"), (b"psetex", b"PX")])
        return [name, self.key(), self.time(unit), self.value()]

    def of_many(self):
        return [self.pick([b"mget", b"del", b"unlink", b"exists", b"touch", b"mget"]), *self.some(self.key)]

    def of_mset(self):
        pairs = [word for _ in range(self.random.randint(1, 3)) for word in (self.key(), self.value())]
        return [self.pick([b"mset", b"msetnx"]), *pairs]

    def of_range(self):
        return [self.pick([b"getrange", b"substr"]), self.key(), self.small(), self.small()]

    def of_setrange(self):
        offset = self.pick([b"0", b"1", b"5", b"-1", b"10", b"a", b"9223372036854775807", b"536870912"])
        return [b"setrange", self.key(), offset, self.pick([b"", b"y", b"zzz"])]

    # Numbers

    def of_incr(self):
        return [self.pick([b"incr", b"decr"]), self.key()]

    def of_incrby(self):
        return [self.pick([b"incrby", b"decrby"]), self.key(), self.number()]

    def of_incrbyfloat(self):
        return [b"incrbyfloat", self.key(), self.float()]

    # Bits

    def of_bit(self):
        if self.random.random() < 0.5:
            return [b"getbit", self.key(), self.pick(BITS)]
        return [b"setbit", self.key(), self.pick(BITS[:6] + BITS[7:]), self.pick([b"0", b"1", b"2", b"a"])]

    def of_bitcount(self):
        options = self.pick([[], [self.small()], [self.small(), self.small()],
                             [self.small(), self.small(), self.pick([b"BIT", b"byte", b"x"])]])
        return [b"bitcount", self.key(), *options]

    def of_bitpos(self):
        options = self.pick([[], [self.small()], [self.small(), self.small()],
                             [self.small(), self.small(), self.pick([b"BIT", b"byte", b"x"])]])
        return [b"bitpos", self.key(), self.pick([b"0", b"1", b"2", b"a"]), *options]

    def of_bitop(self):
        operation = self.pick([b"AND", b"or", b"XOR", b"NOT", b"bad"])
        sources = [self.key()] if operation == b"NOT" and self.random.random() < 0.8 else self.some(self.key, 3)
        return [b"bitop", operation, self.key(), *sources]

    def of_bitfield(self):
        def field():
            return [self.pick([b"i5", b"u8", b"i64", b"u63", b"u1", b"i8", b"u64", b"i0", b"x8", b"i65"]),
                    self.pick([b"0", b"3", b"#1", b"100", b"#2", b"-1", b"a", b"#a"])]
        operations = []
        for _ in range(self.random.randint(0, 3)):
            operations += self.pick([
                lambda: [b"GET", *field()],
                lambda: [b"SET", *field(), self.number()],
                lambda: [b"INCRBY", *field(), self.number()],
                lambda: [b"OVERFLOW", self.pick([b"WRAP", b"sat", b"FAIL", b"bad"])],
            ])()
        return [self.pick([b"bitfield", b"bitfield", b"bitfield_ro"]), self.key(), *operations]

    # Expiry

    def of_expire(self):
        name, unit = self.pick([(b"expire", b"EX"), (b"pexpire", b"PX"), (b"expireat", b"EXAT"), (b"pexpireat", b"PXAT")])
        options = self.pick([[], [], [self.pick([b"NX", b"xx", b"bad"])],
                             self.random.sample([b"NX", b"XX", b"GT", b"LT"], 2)])
        if unit.endswith(b"AT"):
            # Times from now are those of other moments in both servers.
            options = self.pick([options, [self.pick([b"GT", b"LT"])]])
        elif b"GT" in options or b"LT" in options:
            options = [b"NX", *options]
        return [name, self.key(), self.time(unit), *options]

    def of_ttl(self):
        return [self.pick([b"ttl", b"pttl", b"expiretime", b"pexpiretime", b"persist"]), self.key()]

    # Keys

    def of_rename(self):
        return [self.pick([b"rename", b"renamenx"]), self.key(), self.key()]

    def of_copy(self):
        return [b"copy", self.key(), self.key(), *self.pick([[], [b"REPLACE"], [b"bad"]])]

    def of_keys(self):
        return [b"keys", self.pick(PATTERNS)]

    def of_object(self):
        return [b"object", self.pick([b"bad", b"freq"]), self.key()]

    def of_restore(self):
        payload = self.pick([b"\x00\x05hello\n\x00\x0e\xc9\xb7\x9c\xd6\x09\xa4\x0d", b"", b"x" * 20])
        options = self.pick([[], [b"REPLACE"], [b"ABSTTL"], [b"IDLETIME", b"5"], [b"FREQ", b"1"], [b"bad"],
                             [b"FREQ", b"500"], [b"IDLETIME", b"-1"], [b"IDLETIME"]])
        return [b"restore", self.key(), self.pick([b"0", b"100000", b"-1", b"a"]), payload, *options]

    # Hashes

    def of_hset(self):
        pairs = [word for _ in range(self.random.randint(1, 3)) for word in (self.field(), self.value())]
        return [self.pick([b"hset", b"hset", b"hmset"]), self.key(), *pairs]

    def of_hget(self):
        return [self.pick([b"hget", b"hexists", b"hstrlen"]), self.key(), self.field()]

    def of_hmany(self):
        return [self.pick([b"hmget", b"hdel"]), self.key(), *self.some(self.field, 3)]

    def of_hall(self):
        return [self.pick([b"hgetall", b"hkeys", b"hvals", b"hlen"]), self.key()]

    def of_hsetnx(self):
        return [b"hsetnx", self.key(), self.field(), self.value()]

    def of_hincrby(self):
        return [b"hincrby", self.key(), self.field(), self.number()]

    def of_hincrbyfloat(self):
        return [b"hincrbyfloat", self.key(), self.field(), self.float()]

    def of_hscan(self):
        options = self.pick([[], [b"MATCH", self.pick(PATTERNS)], [b"COUNT", self.number()], [b"bad"], [b"MATCH"]])
        return [b"hscan", self.key(), self.pick([b"0", b"0", b"0", b"a", b"", b"1x"]), *options]

    # Scripts that call another command

    def of_script(self):
        others = (self.of_script, self.of_keys, self.of_transaction, self.of_session)
        words = self.pick([row for row in self.rows if row not in others])()
        keys = [*KEYS, *words[1:], b"extra"]
        script = self.pick([b"return redis.call(unpack(ARGV))", b"return redis.pcall(unpack(ARGV))"])
        return [self.pick([b"eval", b"eval", b"eval", b"eval_ro"]), script, b"%d" % len(keys), *keys, *words]

    # Transactions, and the connection

    def of_transaction(self):
        return self.pick([[b"multi"], [b"exec"], [b"exec"], [b"exec"], [b"discard"], [b"unwatch"],
                          [b"watch", *self.some(self.key)]])

    def of_session(self):
        return self.pick([[b"ping"], [b"ping", self.value()], [b"echo", self.value()], [b"nosuch", b"x"],
                          [b"select", self.pick([b"0", b"1", b"16", b"-1", b"a"])], [b"client", b"getname"],
                          [b"client", b"nosuch"], [b"wait", b"0", self.pick([b"0", b"-1", b"a"])],
                          [b"object", b"nosuch"], [b"client", b"setname", self.pick([b"n", b"", b"a b"])],
                          [b"command", b"getkeys", b"mset", b"a", b"1", b"b", b"2"],
                          [b"command", b"getkeys", b"ping", b"x"], [b"config", b"nosuch"], [b"flushdb", self.pick([b"bad", b"async"])]])
