import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.CountDownLatch;

/** Runs the cluster client of lettuce over three nodes: Cluster PORT..., as cluster.py says. */
public final class Cluster {
    private static final int KEYS = 1000;

    private static void check(boolean ok, String what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    /** Writes all keys. While only some nodes have the new map, a write may fail. */
    private static void writeAll(RedisAdvancedClusterCommands<String, String> commands, int sign, boolean changing) {
        for (int number = 0; number < KEYS; number++) {
            try {
                check(commands.set("key:" + number, Integer.toString(sign * number)).equals("OK"), "SET");
            } catch (RedisCommandExecutionException error) {
                check(changing && error.getMessage().startsWith("MOVED"), error.getMessage());
            }
        }
    }

    private static void run(RedisAdvancedClusterCommands<String, String> commands) {
        writeAll(commands, 1, false);
        commands.mset(Map.of("{tag}a", "1", "{tag}b", "2"));
        var values = List.of(KeyValue.just("{tag}a", "1"), KeyValue.just("{tag}b", "2"));
        check(commands.mget("{tag}a", "{tag}b").equals(values), "MGET");
        try {
            commands.eval("return 1", ScriptOutputType.INTEGER, "key:1", "key:2");
            check(false, "keys of two slots were accepted");
        } catch (RedisCommandExecutionException error) {
            check(error.getMessage().startsWith("CROSSSLOT"), error.getMessage());
        }
        CountDownLatch changed = new CountDownLatch(1);
        Thread reader = new Thread(() -> {
            new Scanner(System.in).nextLine();
            changed.countDown();
        });
        reader.start();
        System.out.println("ready");
        while (changed.getCount() > 0) {
            writeAll(commands, 1, true);
        }
        writeAll(commands, -1, false);
        for (int number = 0; number < KEYS; number++) {
            check(Integer.parseInt(commands.get("key:" + number)) == -number, "GET");
        }
    }

    public static void main(String[] arguments) {
        RedisClusterClient client = RedisClusterClient.create("redis://127.0.0.1:" + arguments[0]);
        try (var connection = client.connect()) {
            run(connection.sync());
        } finally {
            client.shutdown();
        }
    }
}
