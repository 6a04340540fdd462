import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.zookeeper.AsyncCallback;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/**
 * Load by ZooKeeper's own Java client, in a closed loop: each answer sends the next request.
 *
 *     java ZooKeeperLoad set|get|mixed CONNECT SESSIONS OUTSTANDING BYTES KEYS WARMUP_S SECONDS
 *     java ZooKeeperLoad watches CONNECT SESSIONS NODES ROUNDS
 *     java ZooKeeperLoad fill CONNECT NODES BYTES
 *
 * One line of JSON on the standard output: count, seconds, and for closed loops p50_ms, p99_ms, p999_ms. Sessions are
 * spread over the servers of CONNECT, one server each.
 */
public final class ZooKeeperLoad {
    private static final int SESSION_MS = 30_000;
    private static final int WAIT_S = 120;
    private static final int SAMPLES_MAX = 4_000_000;
    private static final int FILLED_AT_ONCE = 200; // nodes of one multi
    private static final int MULTIS_UNDER_WAY = 8;

    private final String[] servers;
    private final List<ZooKeeper> sessions = new ArrayList<>();
    private final AtomicReference<String> failure = new AtomicReference<>();

    private ZooKeeperLoad(String connect) {
        servers = connect.split(",");
    }

    public static void main(String[] arguments) throws Exception {
        ZooKeeperLoad load = new ZooKeeperLoad(arguments[1]);
        int[] numbers = new int[arguments.length];
        double[] seconds = new double[arguments.length];
        for (int at = 2; at < arguments.length; at++) {
            seconds[at] = Double.parseDouble(arguments[at]);
            numbers[at] = (int) seconds[at];
        }
        String told;
        switch (arguments[0]) {
            case "set":
            case "get":
            case "mixed":
                told = load.closedLoop(arguments[0], numbers[2], numbers[3], numbers[4], numbers[5],
                        seconds[6], seconds[7]);
                break;
            case "watches":
                told = load.watches(numbers[2], numbers[3], numbers[4]);
                break;
            case "fill":
                told = load.fill(numbers[2], numbers[3]);
                break;
            default:
                throw new IllegalArgumentException(arguments[0]);
        }
        if (load.failure.get() != null) {
            throw new IllegalStateException(load.failure.get());
        }
        System.out.println(told);
        System.exit(0); // sessions end by their time-out or with the servers
    }

    private void open(int count, Watcher watcher) throws Exception {
        for (int number = 0; number < count; number++) {
            CountDownLatch connected = new CountDownLatch(1);
            ZooKeeper session = new ZooKeeper(servers[number % servers.length], SESSION_MS, event -> {
                if (event.getType() != Watcher.Event.EventType.None) {
                    watcher.process(event);
                } else if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                    connected.countDown();
                }
            });
            if (!connected.await(WAIT_S, TimeUnit.SECONDS)) {
                throw new IllegalStateException("no session at " + servers[number % servers.length]);
            }
            sessions.add(session);
        }
    }

    private void make(String path, byte[] data) throws Exception {
        try {
            sessions.get(0).create(path, data, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        } catch (KeeperException.NodeExistsException known) {
            // A load before this one made it.
        }
    }

    private boolean isGood(int code) {
        if (code != KeeperException.Code.OK.intValue()) {
            failure.compareAndSet(null, "answered with " + KeeperException.Code.get(code));
            return false;
        }
        return true;
    }

    // --- a closed loop ----------------------------------------------------------------------------------------------

    private volatile boolean isEnding;
    private volatile boolean isCounting;
    private final long[] samples = new long[SAMPLES_MAX];
    private final AtomicInteger sampled = new AtomicInteger();
    private final AtomicInteger underWay = new AtomicInteger();

    private String closedLoop(String verb, int sessionCount, int outstanding, int bytes, int keys, double warmup,
            double duration) throws Exception {
        open(Math.min(sessionCount, outstanding), event -> {
        });
        byte[] data = new byte[bytes];
        Arrays.fill(data, (byte) 'x');
        make("/load", data);
        for (int number = 0; number < keys; number++) {
            make("/load/key" + number, data);
        }
        underWay.set(outstanding);
        for (int number = 0; number < outstanding; number++) {
            new Chain(sessions.get(number % sessions.size()), verb, data, number, keys).send();
        }
        TimeUnit.NANOSECONDS.sleep((long) (warmup * 1e9));
        isCounting = true;
        long begun = System.nanoTime();
        TimeUnit.NANOSECONDS.sleep((long) (duration * 1e9));
        isCounting = false;
        double took = (System.nanoTime() - begun) / 1e9;
        isEnding = true;
        int count = Math.min(sampled.get(), SAMPLES_MAX);
        long[] sorted = Arrays.copyOf(samples, count);
        Arrays.sort(sorted);
        return String.format("{\"count\": %d, \"seconds\": %.6f, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f}",
                count, took, at(sorted, 0.5), at(sorted, 0.99), at(sorted, 0.999));
    }

    private static double at(long[] sorted, double share) {
        return sorted.length == 0 ? 0 : sorted[(int) Math.round(share * (sorted.length - 1))] / 1e6;
    }

    /** One request after the other; of "mixed" setData and getData by turns. */
    private final class Chain implements AsyncCallback.StatCallback, AsyncCallback.DataCallback {
        private final ZooKeeper session;
        private final boolean isMixed;
        private boolean isSet;
        private final byte[] data;
        private final int keys;
        private int number;
        private long sent;

        Chain(ZooKeeper session, String verb, byte[] data, int number, int keys) {
            this.session = session;
            this.isMixed = verb.equals("mixed");
            this.isSet = verb.equals("set") || isMixed && number % 2 == 0;
            this.data = data;
            this.number = number;
            this.keys = keys;
        }

        void send() {
            number = (number + 7919) % keys;
            sent = System.nanoTime();
            if (isSet) {
                session.setData("/load/key" + number, data, -1, this, null);
            } else {
                session.getData("/load/key" + number, false, this, null);
            }
        }

        @Override
        public void processResult(int code, String path, Object context, org.apache.zookeeper.data.Stat stat) {
            answered(code);
        }

        @Override
        public void processResult(int code, String path, Object context, byte[] found,
                org.apache.zookeeper.data.Stat stat) {
            answered(code);
        }

        private void answered(int code) {
            if (isCounting) {
                int place = sampled.getAndIncrement();
                if (place < SAMPLES_MAX) {
                    samples[place] = System.nanoTime() - sent;
                }
            }
            if (isEnding || !isGood(code)) {
                underWay.decrementAndGet();
            } else {
                isSet ^= isMixed;
                send();
            }
        }
    }

    // --- watches ----------------------------------------------------------------------------------------------------

    private volatile CountDownLatch events;

    /**
     * Every session watches every node; then each node changes once. Seconds from the first change to the last event,
     * of the last of the rounds: before it the client's Java has compiled its hot code.
     */
    private String watches(int sessionCount, int nodes, int rounds) throws Exception {
        open(sessionCount, event -> events.countDown());
        String parent = "/watched" + System.nanoTime();
        make(parent, new byte[0]);
        List<String> paths = new ArrayList<>();
        for (int number = 0; number < nodes; number++) {
            paths.add(parent + "/" + number);
        }
        CountDownLatch made = new CountDownLatch(nodes);
        for (String path : paths) {
            sessions.get(0).create(path, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT,
                    (code, asked, context, name) -> {
                        isGood(code);
                        made.countDown();
                    }, null);
        }
        await(made, "nodes");
        String told = "";
        for (int round = 0; round < rounds; round++) {
            told = watchesOnce(sessionCount * nodes, parent, paths);
        }
        return told;
    }

    private String watchesOnce(int expected, String parent, List<String> paths) throws Exception {
        events = new CountDownLatch(expected);
        CountDownLatch armed = new CountDownLatch(expected);
        for (ZooKeeper session : sessions) {
            session.sync(parent, (code, path, context) -> isGood(code), null);
            for (String path : paths) {
                session.getData(path, true, (code, asked, context, data, stat) -> {
                    isGood(code);
                    armed.countDown();
                }, null);
            }
        }
        await(armed, "armed watches");
        long begun = System.nanoTime();
        for (String path : paths) {
            sessions.get(0).setData(path, new byte[1], -1, (code, asked, context, stat) -> isGood(code), null);
        }
        await(events, "events");
        return String.format("{\"count\": %d, \"seconds\": %.6f}", expected, (System.nanoTime() - begun) / 1e9);
    }

    private void await(CountDownLatch latch, String what) throws Exception {
        if (!latch.await(WAIT_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException(latch.getCount() + " of the " + what + " are missing");
        }
    }

    // --- many nodes -------------------------------------------------------------------------------------------------

    private String fill(int nodes, int bytes) throws Exception {
        open(1, event -> {
        });
        byte[] data = new byte[bytes];
        Semaphore free = new Semaphore(MULTIS_UNDER_WAY);
        long begun = System.nanoTime();
        make("/filled", data);
        for (int first = 0; first < nodes; first += FILLED_AT_ONCE) {
            List<Op> operations = new ArrayList<>();
            String parent = "/filled/p" + first / FILLED_AT_ONCE;
            operations.add(Op.create(parent, data, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
            for (int number = first + 1; number < Math.min(nodes, first + FILLED_AT_ONCE); number++) {
                operations.add(Op.create(parent + "/n" + number, data, ZooDefs.Ids.OPEN_ACL_UNSAFE,
                        CreateMode.PERSISTENT));
            }
            free.acquire();
            sessions.get(0).multi(operations, (code, path, context, results) -> {
                isGood(code);
                free.release();
            }, null);
        }
        free.acquire(MULTIS_UNDER_WAY);
        return String.format("{\"count\": %d, \"seconds\": %.6f}", nodes, (System.nanoTime() - begun) / 1e9);
    }
}
