import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * ZooKeeper's own client, content with a read-only session, asked by lines on its standard input; one line answers each.
 *
 *     java ReadOnlyClient CONNECT SESSION_MS
 *
 * Commands: wait STATE | session | create PATH | ephemeral PATH | set PATH VALUE | get PATH | owner PATH | sync PATH |
 * watch PATH | event. A refusal is answered with its code. A command waits for what it asked for, with a limit.
 */
public final class ReadOnlyClient {
    private static final int WAIT_S = 60;

    private final BlockingQueue<String> told = new LinkedBlockingQueue<>();
    private final ZooKeeper keeper;

    private ReadOnlyClient(String connect, int sessionMs) throws Exception {
        keeper = new ZooKeeper(connect, sessionMs, event -> {
            if (event.getType() != Watcher.Event.EventType.None) {
                told.add(event.getType() + " " + event.getPath());
            }
        }, true);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // what libraries print is no answer
        ReadOnlyClient client = new ReadOnlyClient(arguments[0], Integer.parseInt(arguments[1]));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = client.run(line.split(" "));
            } catch (KeeperException error) {
                answer = error.code().toString();
            }
            answers.println(answer);
            answers.flush();
        }
        System.exit(0);
    }

    private String run(String[] words) throws Exception {
        switch (words[0]) {
            case "wait":
                return await(words[1]);
            case "session":
                return Long.toHexString(keeper.getSessionId());
            case "create":
                return keeper.create(words[1], new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            case "ephemeral":
                return keeper.create(words[1], new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
            case "set":
                keeper.setData(words[1], words[2].getBytes(), -1);
                return "ok";
            case "get":
                return new String(keeper.getData(words[1], false, null));
            case "owner":
                Stat stat = keeper.exists(words[1], false);
                return stat == null ? "none" : Long.toHexString(stat.getEphemeralOwner());
            case "sync":
                CountDownLatch done = new CountDownLatch(1);
                keeper.sync(words[1], (code, path, context) -> done.countDown(), null);
                return done.await(WAIT_S, TimeUnit.SECONDS) ? "ok" : "no answer";
            case "watch":
                keeper.exists(words[1], true);
                return "ok";
            case "event":
                return String.valueOf(told.poll(WAIT_S, TimeUnit.SECONDS));
            default:
                return "unknown command";
        }
    }

    /** The state that it has at last: the one that was waited for, if it came in time. */
    private String await(String state) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_S);
        while (!keeper.getState().name().equals(state) && System.nanoTime() < deadline) {
            TimeUnit.MILLISECONDS.sleep(5);
        }
        return keeper.getState().name();
    }
}
