// A tour in C++17: handles close themselves, errors are exceptions.

#include <siltstone.hpp>

#include <iostream>

int main(int argc, char **argv) try {
    using namespace std::chrono_literals;
    const std::string directory = argc > 1 ? argv[1] : ".";
    siltstone::Database db(directory + "/colours.db", {{"memory_budget", "16MiB"}});
    db.put("rose", "red");
    std::cout << "a rose is " << db.get("rose").value() << "\n";

    siltstone::Batch batch;
    batch.put("violet", "blue").put("dew", "silver", siltstone::expires_in(1h)).remove("rose");
    auto before = db.snapshot();
    db.write(batch, siltstone::Durability::Synced);
    if (db.get("rose") || before.get("rose") != "red") return 1;

    for (int i = 0; i < 3; i++) {
        db.update("visits", [](auto found) { return std::to_string(found ? std::stoi(std::string(*found)) + 1 : 1); });
    }
    if (!db.compare_and_swap("visits", "3", "0") || db.compare_and_swap("visits", std::nullopt, "1")) return 1;
    if (!db.compare_and_swap("visits", "0", "") || !db.compare_and_swap("visits", "", "3")) return 1;
    if (db.get("visits") != "3") return 1;

    size_t records = 0;
    for (auto record : db.records()) records += record.key != "visits";
    std::cout << records << " colours\n";

    // An exception of the callback changes nothing and arrives here; so does an error of the library.
    try {
        db.update("visits", [](auto) -> std::optional<std::string> { throw std::out_of_range("no more visits"); });
        return 1;
    } catch (const std::out_of_range &) {
    }
    try {
        siltstone::Database again(directory + "/colours.db");
        return 1;
    } catch (const siltstone::Error &error) {
        if (error.code != SILTSTONE_ERROR_LOCKED) return 1;
    }

    // A time that has passed is no time without end.
    db.put("gone", "grey", siltstone::expires_in(-5ms));
    if (db.get("gone")) return 1;

    siltstone::DictionaryWriter writer(directory + "/capitals.dict");
    writer.put("Peru", "Lima");
    writer.put("Chad", "N'Djamena");
    auto capitals = writer.finish();
    auto found = capitals.get_many({"Chad", "Atlantis"});
    if (capitals.size() != 2 || found[0] != "N'Djamena" || found[1]) return 1;

    auto cache = siltstone::Database::in_memory({{"engine", "mica"}, {"memory_budget", "16MiB"}});
    if (!cache.insert_if_absent("a", "1") || cache.insert_if_absent("a", "2")) return 1;

    db.close();
    return 0;
} catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
    return 1;
}
