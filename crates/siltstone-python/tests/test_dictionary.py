"""Dictionaries, and asyncio."""

import asyncio
import os
from collections.abc import Mapping

import pytest
import siltstone


def test_a_dictionary_is_a_mapping(path):
    records = {f"key {number}": number for number in range(20_000)}
    built = siltstone.Dictionary.build(path, records, keys="str", values="json", memory_bytes=1 << 16)
    assert isinstance(built, Mapping) and len(built) == 20_000 and built == records
    dictionary = siltstone.Dictionary(path, keys="str", values="json", index_in_memory=False)
    assert dictionary["key 7"] == 7 and dictionary.get("none", 0) == 0 and "key 7" in dictionary
    assert dictionary.get_many(["key 1", "x"], default=-1) == [1, -1]
    assert dictionary.contains_many(["x", "key 1"]) == [False, True]
    assert set(dictionary.values()) == set(range(20_000))
    assert dictionary.verify()["damage"] == [] and dictionary.info()["records"] == 20_000
    with pytest.raises(KeyError):
        dictionary["none"]
    with pytest.raises(TypeError):
        dictionary["a"] = 1


def test_a_failed_build_leaves_nothing(path):
    def records():
        yield b"a", b"1"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        siltstone.Dictionary.build(path, records())
    with pytest.raises(siltstone.RecordError, match="twice"):
        siltstone.Dictionary.build(path, [(b"a", b"1"), (b"a", b"2")], refuse_duplicates=True)
    with pytest.raises(siltstone.SettingError, match="sparse_trie"):
        siltstone.Dictionary.build(path, [], index="btree")
    with pytest.raises(siltstone.RecordError):
        siltstone.Dictionary.build(path, [(b"a", b"1")] * 100_000, fixed=(8, 8))
    assert not os.path.exists(path)
    with pytest.raises(siltstone.Error):
        siltstone.Dictionary(path)


def test_damage_is_reported_with_its_place(path):
    siltstone.Dictionary.build(path, ((b"%d" % number, b"x" * 100) for number in range(1000)))
    with open(path, "r+b") as file:
        file.seek(50_000)
        file.write(b"damage")
    dictionary = siltstone.Dictionary(path)
    (damage,) = dictionary.verify()["damage"]
    assert damage["offset"] <= 50_000 < damage["offset"] + damage["length"]
    with pytest.raises(siltstone.CorruptError) as raised:
        list(dictionary)
    assert str(raised.value.file) == path and raised.value.offset <= 50_000


def test_gets_of_an_event_loop_are_looked_up_together(path):
    with siltstone.open(path) as db:
        db[(2000 + 2**63).to_bytes(8, "big")] = b"{"
    with siltstone.open(path, keys="int", values="json") as db:
        db.update((number, [number]) for number in range(1000))

        async def main():
            values = await asyncio.gather(*[db.aget(number) for number in range(990, 1010)])
            assert values == [[number] for number in range(990, 1000)] + [None] * 10
            assert await db.aget_many([1, 6000], 0) == [[1], 0]
            await db.aput(5000, "x", expire=1000)
            assert await db.aget(5000) == "x"
            results = await asyncio.gather(db.aget(1), db.aget("no number"), db.aget(2000), return_exceptions=True)
            assert results[:2] == [[1], None] and isinstance(results[2], siltstone.DecodeError)
            task = asyncio.ensure_future(db.aget(2))
            await asyncio.sleep(0)
            task.cancel()
            assert await db.aget(3, "absent") == [3]

        asyncio.run(main())
        asyncio.run(main())
