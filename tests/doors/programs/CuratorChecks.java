import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.CachedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.utils.ZKPaths;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.auth.DigestAuthenticationProvider;

/**
 * Curator's recipes, each against servers that speak ZooKeeper's protocol.
 *
 *     java CuratorChecks CONNECT [CHECK ...]
 *
 * A line for each check: "ok NAME MILLISECONDS" or "failed NAME CAUSE". The exit code is the number of failed ones.
 * Nothing sleeps: a check waits for what it expects, with a limit.
 */
public final class CuratorChecks {
    private static final int WAIT_S = 30;
    private static final int SESSION_MS = 6000;
    private static final int COLLECTED_S = 90; // ZooKeeper looks for nodes whose time is over once in 60 s

    private interface Check {
        void run() throws Exception;
    }

    private final String connect;
    private final List<CuratorFramework> clients = new ArrayList<>();
    private String root = "";

    private CuratorChecks(String connect) {
        this.connect = connect;
    }

    public static void main(String[] arguments) throws Exception {
        CuratorChecks checks = new CuratorChecks(arguments[0]);
        Map<String, Check> all = checks.all();
        List<String> names = new ArrayList<>(all.keySet());
        if (arguments.length > 1) {
            names = Arrays.asList(arguments).subList(1, arguments.length);
        }
        int failed = 0;
        for (String name : names) {
            long begun = System.nanoTime();
            try {
                checks.begin();
                all.get(name).run();
                System.out.println("ok " + name + " " + (System.nanoTime() - begun) / 1_000_000);
            } catch (Throwable error) {
                failed++;
                error.printStackTrace();
                System.out.println("failed " + name + " " + error);
            } finally {
                checks.end();
            }
        }
        System.exit(failed);
    }

    private Map<String, Check> all() {
        Map<String, Check> found = new LinkedHashMap<>();
        found.put("creations", this::creations);
        found.put("rights", this::rights);
        found.put("ttl", this::ttl);
        found.put("transactions", this::transactions);
        found.put("mutex", this::mutex);
        found.put("read_write_lock", this::readWriteLock);
        found.put("semaphore_mutex", this::semaphoreMutex);
        found.put("multi_lock", this::multiLock);
        found.put("revocation", this::revocation);
        found.put("semaphore", this::semaphore);
        found.put("leader_latch", this::leaderLatch);
        found.put("leader_selector", this::leaderSelector);
        found.put("barrier", this::barrier);
        found.put("double_barrier", this::doubleBarrier);
        found.put("shared_count", this::sharedCount);
        found.put("atomic_long", this::atomicLong);
        found.put("atomic_integer", this::atomicInteger);
        found.put("curator_cache", this::curatorCache);
        found.put("old_caches", this::oldCaches);
        found.put("persistent_node_and_group", this::persistentNodeAndGroup);
        found.put("ttl_node", this::ttlNode);
        found.put("queue", this::queue);
        found.put("queues_in_order", this::queuesInOrder);
        found.put("simple_queue", this::simpleQueue);
        found.put("watches", this::watches);
        found.put("persistent_watcher", this::persistentWatcher);
        found.put("lost_session", this::lostSession);
        found.put("tree_deletion", this::treeDeletion);
        return found;
    }

    private void begin() throws Exception {
        root = "/curator-" + UUID.randomUUID();
        client().create().forPath(root);
    }

    private void end() {
        for (CuratorFramework client : clients) {
            client.close();
        }
        clients.clear();
    }

    private CuratorFramework client() throws Exception {
        return started(CuratorFrameworkFactory.builder());
    }

    private CuratorFramework started(CuratorFrameworkFactory.Builder builder) throws Exception {
        CuratorFramework client = builder.connectString(connect)
                .sessionTimeoutMs(SESSION_MS)
                .connectionTimeoutMs(15_000)
                .retryPolicy(new ExponentialBackoffRetry(100, 5))
                .build();
        client.start();
        clients.add(client);
        check(client.blockUntilConnected(WAIT_S, TimeUnit.SECONDS), "not connected");
        return client;
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static void eventually(String what, Callable<Boolean> condition) throws Exception {
        within(WAIT_S, what, condition);
    }

    private static void within(int seconds, String what, Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (!condition.call()) {
            check(System.nanoTime() < deadline, "not within " + seconds + " s: " + what);
            TimeUnit.MILLISECONDS.sleep(5);
        }
    }

    private static void refused(Class<? extends KeeperException> kind, Check request) throws Exception {
        try {
            request.run();
        } catch (KeeperException error) {
            check(kind.isInstance(error), "refused with " + error + " and not " + kind.getSimpleName());
            return;
        }
        throw new AssertionError("not refused with " + kind.getSimpleName());
    }

    private void creations() throws Exception {
        CuratorFramework client = client();
        client.create().creatingParentsIfNeeded().forPath(root + "/a/b/c", "x".getBytes());
        client.create().creatingParentContainersIfNeeded().forPath(root + "/containers/x/y");
        Stat container = client.checkExists().forPath(root + "/containers/x");
        check(container.getNumChildren() == 1 && container.getEphemeralOwner() == 0, "container: " + container);
        String named = client.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL)
                .forPath(root + "/p-");
        check(named.contains("_c_") && named.endsWith("0000000002"), named);
        Stat stat = new Stat();
        client.create().storingStatIn(stat).forPath(root + "/with-stat", "12345".getBytes());
        check(stat.getDataLength() == 5 && stat.getCzxid() == stat.getMzxid() && stat.getCzxid() > 0, "stat " + stat);
        check(client.create().orSetData().forPath(root + "/with-stat", "6".getBytes()) != null, "or set");
        check(new String(client.getData().forPath(root + "/with-stat")).equals("6"), "data was not set");
        client.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath(root + "/s-");
        refused(KeeperException.NodeExistsException.class, () -> client.create().forPath(root + "/with-stat"));
        refused(KeeperException.NoNodeException.class, () -> client.create().forPath(root + "/no/parent"));
        refused(KeeperException.NoChildrenForEphemeralsException.class, () -> client.create().forPath(named + "/x"));
        refused(KeeperException.BadVersionException.class,
                () -> client.setData().withVersion(7).forPath(root + "/with-stat", new byte[0]));
        refused(KeeperException.NotEmptyException.class, () -> client.delete().forPath(root + "/a"));
    }

    private void rights() throws Exception {
        CuratorFramework owner = started(CuratorFrameworkFactory.builder().authorization("digest", "u:p".getBytes()));
        CuratorFramework stranger = client();
        owner.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath(root + "/own", "secret".getBytes());
        refused(KeeperException.NoAuthException.class, () -> stranger.getData().forPath(root + "/own"));
        Id id = new Id("digest", DigestAuthenticationProvider.generateDigest("u:p"));
        check(owner.getACL().forPath(root + "/own").equals(List.of(new ACL(ZooDefs.Perms.ALL, id))), "list of rights");
        owner.setACL().withACL(ZooDefs.Ids.OPEN_ACL_UNSAFE).forPath(root + "/own");
        check(new String(stranger.getData().forPath(root + "/own")).equals("secret"), "data");
        check(stranger.checkExists().forPath(root + "/own").getAversion() == 1, "version of rights");
    }

    private void ttl() throws Exception {
        CuratorFramework client = client();
        client.create().withTtl(600_000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath(root + "/ttl");
        Stat stat = client.checkExists().forPath(root + "/ttl");
        check(stat.getEphemeralOwner() == 0 && stat.getVersion() == 0, "stat of a TTL node: " + stat);
    }

    private void transactions() throws Exception {
        CuratorFramework client = client();
        client.create().forPath(root + "/t", "0".getBytes());
        Collection<CuratorTransactionResult> results = client.transaction().forOperations(
                client.transactionOp().check().withVersion(0).forPath(root + "/t"),
                client.transactionOp().create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath(root + "/t/s-"),
                client.transactionOp().setData().withVersion(0).forPath(root + "/t", "1".getBytes()),
                client.transactionOp().create().forPath(root + "/t/gone"),
                client.transactionOp().delete().forPath(root + "/t/gone"));
        check(results.size() == 5, "results " + results.size());
        List<String> children = client.getChildren().forPath(root + "/t");
        check(children.equals(List.of("s-0000000000")), "children " + children);
        refused(KeeperException.BadVersionException.class, () -> client.transaction().forOperations(
                client.transactionOp().create().forPath(root + "/t/half"),
                client.transactionOp().check().withVersion(0).forPath(root + "/t")));
        check(client.checkExists().forPath(root + "/t/half") == null, "half of a transaction stayed");
    }

    /** Threads of two clients add up under a lock, without which the sum would be wrong. */
    private void mutex() throws Exception {
        CuratorFramework[] both = {client(), client()};
        AtomicInteger inside = new AtomicInteger();
        int[] sum = {0};
        together(4, number -> {
            InterProcessMutex mutex = new InterProcessMutex(both[number % 2], root + "/mutex");
            for (int turn = 0; turn < 10; turn++) {
                check(mutex.acquire(WAIT_S, TimeUnit.SECONDS), "not acquired");
                check(inside.incrementAndGet() == 1, "two inside");
                mutex.acquire();
                sum[0]++;
                mutex.release();
                inside.decrementAndGet();
                mutex.release();
            }
        });
        check(sum[0] == 40, "sum " + sum[0]);
    }

    private interface Numbered {
        void run(int number) throws Exception;
    }

    private static void together(int count, Numbered body) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(count);
        List<Future<?>> running = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            int own = number;
            running.add(threads.submit(() -> {
                body.run(own);
                return null;
            }));
        }
        for (Future<?> one : running) {
            one.get(2L * WAIT_S, TimeUnit.SECONDS);
        }
        threads.shutdown();
    }

    private void readWriteLock() throws Exception {
        InterProcessReadWriteLock first = new InterProcessReadWriteLock(client(), root + "/rw");
        InterProcessReadWriteLock second = new InterProcessReadWriteLock(client(), root + "/rw");
        first.readLock().acquire();
        check(second.readLock().acquire(WAIT_S, TimeUnit.SECONDS), "two readers");
        check(!second.writeLock().acquire(200, TimeUnit.MILLISECONDS), "a writer beside readers");
        first.readLock().release();
        second.readLock().release();
        check(second.writeLock().acquire(WAIT_S, TimeUnit.SECONDS), "a writer alone");
        check(!first.readLock().acquire(200, TimeUnit.MILLISECONDS), "a reader beside a writer");
        second.writeLock().release();
        check(first.readLock().acquire(WAIT_S, TimeUnit.SECONDS), "a reader after a writer");
        first.readLock().release();
    }

    /** It belongs to nobody: another thread may release it, and its own thread cannot take it twice. */
    private void semaphoreMutex() throws Exception {
        InterProcessSemaphoreMutex first = new InterProcessSemaphoreMutex(client(), root + "/sm");
        InterProcessSemaphoreMutex second = new InterProcessSemaphoreMutex(client(), root + "/sm");
        first.acquire();
        check(!first.acquire(200, TimeUnit.MILLISECONDS), "taken twice");
        check(!second.acquire(200, TimeUnit.MILLISECONDS), "two inside");
        together(1, number -> first.release());
        check(second.acquire(WAIT_S, TimeUnit.SECONDS), "not acquired");
        second.release();
    }

    /** All locks or none of them. */
    private void multiLock() throws Exception {
        CuratorFramework client = client();
        InterProcessMutex other = new InterProcessMutex(client(), root + "/m2");
        InterProcessMultiLock both = new InterProcessMultiLock(client, List.of(root + "/m1", root + "/m2"));
        other.acquire();
        check(!both.acquire(200, TimeUnit.MILLISECONDS), "one of two is held");
        check(client.getChildren().forPath(root + "/m1").isEmpty(), "the other one stays locked");
        other.release();
        check(both.acquire(WAIT_S, TimeUnit.SECONDS), "not acquired");
        together(1, number -> check(!other.acquire(200, TimeUnit.MILLISECONDS), "a stranger beside both"));
        both.release();
    }

    /** The holder is asked to give the lock back, which the other one waits for. */
    private void revocation() throws Exception {
        CuratorFramework client = client();
        InterProcessMutex held = new InterProcessMutex(client(), root + "/revoked");
        InterProcessMutex wanted = new InterProcessMutex(client, root + "/revoked");
        CountDownLatch asked = new CountDownLatch(1);
        held.makeRevocable(lock -> asked.countDown());
        held.acquire();
        for (String path : wanted.getParticipantNodes()) {
            Revoker.attemptRevoke(client, path);
        }
        check(asked.await(WAIT_S, TimeUnit.SECONDS), "the holder was not asked");
        held.release();
        check(wanted.acquire(WAIT_S, TimeUnit.SECONDS), "not acquired");
        wanted.release();
    }

    private void semaphore() throws Exception {
        InterProcessSemaphoreV2 first = new InterProcessSemaphoreV2(client(), root + "/semaphore", 2);
        InterProcessSemaphoreV2 second = new InterProcessSemaphoreV2(client(), root + "/semaphore", 2);
        Collection<Lease> leases = first.acquire(2);
        check(second.acquire(200, TimeUnit.MILLISECONDS) == null, "a third lease");
        first.returnAll(leases);
        Lease lease = second.acquire(WAIT_S, TimeUnit.SECONDS);
        check(lease != null, "no lease");
        second.returnLease(lease);
    }

    private void leaderLatch() throws Exception {
        CuratorFramework[] both = {client(), client()};
        LeaderLatch first = new LeaderLatch(both[0], root + "/latch", "first");
        LeaderLatch second = new LeaderLatch(both[1], root + "/latch", "second");
        first.start();
        check(first.await(WAIT_S, TimeUnit.SECONDS), "first does not lead");
        second.start();
        eventually("two candidates", () -> second.getParticipants().size() == 2);
        check(!second.hasLeadership() && second.getLeader().getId().equals("first"), "two leaders");
        first.close();
        check(second.await(WAIT_S, TimeUnit.SECONDS), "second does not lead");
        second.close();
    }

    private void leaderSelector() throws Exception {
        AtomicInteger leading = new AtomicInteger();
        CountDownLatch turns = new CountDownLatch(6);
        List<LeaderSelector> selectors = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            LeaderSelector selector = new LeaderSelector(client(), root + "/selector",
                    new LeaderSelectorListenerAdapter() {
                        @Override
                        public void takeLeadership(CuratorFramework client) {
                            check(leading.incrementAndGet() == 1, "two lead");
                            leading.decrementAndGet();
                            turns.countDown();
                        }
                    });
            selector.autoRequeue();
            selector.start();
            selectors.add(selector);
        }
        check(turns.await(WAIT_S, TimeUnit.SECONDS), "too few turns: " + turns.getCount());
        for (LeaderSelector selector : selectors) {
            selector.close();
        }
    }

    private void barrier() throws Exception {
        DistributedBarrier owner = new DistributedBarrier(client(), root + "/b");
        DistributedBarrier waiter = new DistributedBarrier(client(), root + "/b");
        owner.setBarrier();
        check(!waiter.waitOnBarrier(200, TimeUnit.MILLISECONDS), "passed a barrier that is set");
        owner.removeBarrier();
        check(waiter.waitOnBarrier(WAIT_S, TimeUnit.SECONDS), "stopped by a barrier that is gone");
    }

    private void doubleBarrier() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        together(3, number -> {
            DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client(), root + "/barrier", 3);
            inside.incrementAndGet();
            check(barrier.enter(WAIT_S, TimeUnit.SECONDS), "not entered");
            check(inside.get() == 3, "entered before all came");
            check(barrier.leave(WAIT_S, TimeUnit.SECONDS), "not left");
        });
    }

    private void sharedCount() throws Exception {
        SharedCount first = new SharedCount(client(), root + "/count", 7);
        SharedCount second = new SharedCount(client(), root + "/count", 7);
        first.start();
        second.start();
        check(first.trySetCount(first.getVersionedValue(), 10), "not set");
        eventually("the other count to follow", () -> second.getCount() == 10);
        first.close();
        second.close();
    }

    private void atomicLong() throws Exception {
        together(4, number -> {
            DistributedAtomicLong sum = new DistributedAtomicLong(client(), root + "/long",
                    new ExponentialBackoffRetry(5, 29));
            for (int turn = 0; turn < 5; turn++) {
                AtomicValue<Long> found = sum.increment();
                check(found.succeeded(), "not incremented");
            }
        });
        DistributedAtomicLong sum = new DistributedAtomicLong(client(), root + "/long",
                new ExponentialBackoffRetry(5, 29));
        check(sum.get().postValue() == 20, "sum " + sum.get().postValue());
    }

    /** An integer with a compare-and-set; identifiers that are taken in blocks never come twice. */
    private void atomicInteger() throws Exception {
        ExponentialBackoffRetry retry = new ExponentialBackoffRetry(5, 29);
        DistributedAtomicInteger number = new DistributedAtomicInteger(client(), root + "/integer", retry);
        check(number.initialize(5) && !number.initialize(6), "initialized twice");
        check(!number.compareAndSet(4, 9).succeeded(), "set though it was another");
        check(number.compareAndSet(5, 9).postValue() == 9, "not set");
        check(number.subtract(2).postValue() == 7, "not subtracted");
        Set<Long> taken = ConcurrentHashMap.newKeySet();
        together(3, one -> {
            CachedAtomicLong ids = new CachedAtomicLong(
                    new DistributedAtomicLong(client(), root + "/ids", retry), 7);
            for (int turn = 0; turn < 20; turn++) {
                AtomicValue<Long> id = ids.next();
                check(id.succeeded() && taken.add(id.postValue()), "an id came twice");
            }
        });
        check(taken.size() == 60, "ids " + taken.size());
    }

    private void curatorCache() throws Exception {
        CuratorFramework client = client();
        Set<String> seen = ConcurrentHashMap.newKeySet();
        CuratorCache cache = CuratorCache.build(client(), root + "/cache");
        cache.listenable().addListener(CuratorCacheListener.builder()
                .forCreates(node -> seen.add("created " + node.getPath()))
                .forChanges((before, after) -> seen.add("changed " + after.getPath()))
                .forDeletes(node -> seen.add("deleted " + node.getPath()))
                .forInitialized(() -> seen.add("ready"))
                .build());
        client.create().creatingParentsIfNeeded().forPath(root + "/cache/a/b", "1".getBytes());
        cache.start();
        eventually("the first state", () -> seen.contains("ready"));
        check(cache.get(root + "/cache/a/b").isPresent(), "the first state lacks a node");
        client.create().forPath(root + "/cache/c");
        eventually("a creation", () -> seen.contains("created " + root + "/cache/c"));
        client.setData().forPath(root + "/cache/a/b", "2".getBytes());
        eventually("a change", () -> seen.contains("changed " + root + "/cache/a/b"));
        client.delete().forPath(root + "/cache/a/b");
        eventually("a deletion", () -> seen.contains("deleted " + root + "/cache/a/b"));
        cache.close();
    }

    @SuppressWarnings("deprecation")
    private void oldCaches() throws Exception {
        CuratorFramework client = client();
        client.create().creatingParentsIfNeeded().forPath(root + "/old/a", "1".getBytes());
        NodeCache node = new NodeCache(client, root + "/old/a");
        PathChildrenCache children = new PathChildrenCache(client, root + "/old", true);
        TreeCache tree = new TreeCache(client, root + "/old");
        node.start(true);
        children.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
        tree.start();
        eventually("the tree", () -> tree.getCurrentData(root + "/old/a") != null);
        client.setData().forPath(root + "/old/a", "2".getBytes());
        client.create().forPath(root + "/old/b", "3".getBytes());
        eventually("the node", () -> new String(node.getCurrentData().getData()).equals("2"));
        eventually("the children", () -> children.getCurrentData().size() == 2);
        eventually("the tree's change", () -> tree.getCurrentData(root + "/old/b") != null
                && new String(tree.getCurrentData(root + "/old/a").getData()).equals("2"));
        node.close();
        children.close();
        tree.close();
    }

    private void persistentNodeAndGroup() throws Exception {
        CuratorFramework client = client();
        PersistentNode node = new PersistentNode(client(), CreateMode.EPHEMERAL, false, root + "/p", "x".getBytes());
        node.start();
        check(node.waitForInitialCreate(WAIT_S, TimeUnit.SECONDS), "not created");
        long first = client.checkExists().forPath(root + "/p").getCzxid();
        client.delete().forPath(root + "/p");
        eventually("the node to come back", () -> {
            Stat stat = client.checkExists().forPath(root + "/p");
            return stat != null && stat.getCzxid() > first;
        });
        node.close();
        GroupMember one = new GroupMember(client(), root + "/group", "one", "1".getBytes());
        GroupMember two = new GroupMember(client(), root + "/group", "two", "2".getBytes());
        one.start();
        two.start();
        eventually("both members", () -> one.getCurrentMembers().keySet().equals(Set.of("one", "two")));
        two.close();
        eventually("one member", () -> one.getCurrentMembers().keySet().equals(Set.of("one")));
        one.close();
    }

    /** Kept alive by being touched; it outlives its client, and goes when its time is over. */
    private void ttlNode() throws Exception {
        CuratorFramework client = client();
        long ttl = 1500;
        PersistentTtlNode node = new PersistentTtlNode(client(), root + "/kept", ttl, "x".getBytes());
        node.start();
        check(node.waitForInitialCreate(WAIT_S, TimeUnit.SECONDS), "not created");
        String touched = root + "/kept/" + PersistentTtlNode.DEFAULT_CHILD_NODE_NAME;
        eventually("the touched child", () -> client.checkExists().forPath(touched) != null);
        int version = client.checkExists().forPath(touched).getVersion();
        eventually("two touches more", () -> client.checkExists().forPath(touched).getVersion() >= version + 2);
        check(client.checkExists().forPath(root + "/kept") != null, "gone though it was touched");
        node.close();
        within(COLLECTED_S, "the child to go", () -> client.checkExists().forPath(touched) == null);
    }

    private static final class Text implements QueueSerializer<String> {
        @Override
        public byte[] serialize(String item) {
            return item.getBytes();
        }

        @Override
        public String deserialize(byte[] bytes) {
            return new String(bytes);
        }
    }

    /** Keeps what a queue gives it. */
    private static final class Taken implements QueueConsumer<String> {
        final BlockingQueue<String> items = new LinkedBlockingQueue<>();

        @Override
        public void consumeMessage(String message) {
            items.add(message);
        }

        @Override
        public void stateChanged(CuratorFramework client, ConnectionState state) {
        }

        void next(String expected) throws InterruptedException {
            String item = items.poll(WAIT_S, TimeUnit.SECONDS);
            check(expected.equals(item), expected + " is " + item);
        }
    }

    private QueueBuilder<String> queueAt(QueueConsumer<String> consumer, String name) throws Exception {
        return QueueBuilder.builder(client(), consumer, new Text(), root + "/" + name);
    }

    private void queue() throws Exception {
        Taken taken = new Taken();
        DistributedQueue<String> sink = queueAt(taken, "queue").lockPath(root + "/queue-locks").buildQueue();
        sink.start();
        for (int number = 0; number < 20; number++) {
            sink.put("item " + number);
        }
        for (int number = 0; number < 20; number++) {
            taken.next("item " + number);
        }
        sink.close();
    }

    /** By priority, by time, by name: what was put before the consumer came is taken in that order. */
    private void queuesInOrder() throws Exception {
        DistributedPriorityQueue<String> ranked = queueAt(null, "ranked").buildPriorityQueue(0);
        ranked.start();
        ranked.put("third", 9);
        ranked.put("first", 1);
        ranked.put("second", 5);
        check(ranked.flushPuts(WAIT_S, TimeUnit.SECONDS), "not put");
        ranked.close();
        Taken taken = new Taken();
        DistributedPriorityQueue<String> sink = queueAt(taken, "ranked").buildPriorityQueue(0);
        sink.start();
        for (String item : List.of("first", "second", "third")) {
            taken.next(item);
        }
        sink.close();

        Taken later = new Taken();
        DistributedDelayQueue<String> delayed = queueAt(later, "delayed").buildDelayQueue();
        delayed.start();
        long now = System.currentTimeMillis();
        delayed.put("late", now + 800);
        delayed.put("early", now + 200);
        later.next("early");
        later.next("late");
        check(System.currentTimeMillis() >= now + 800, "taken before its time");
        delayed.close();

        DistributedIdQueue<String> named = queueAt(null, "named").buildIdQueue();
        named.start();
        named.put("kept", "a");
        named.put("removed", "b");
        check(named.flushPuts(WAIT_S, TimeUnit.SECONDS), "not put");
        check(named.remove("b") == 1, "not removed");
        named.close();
        Taken rest = new Taken();
        DistributedIdQueue<String> reader = queueAt(rest, "named").buildIdQueue();
        reader.start();
        rest.next("kept");
        reader.close();
    }

    /** Two consumers take each item once, in the order of one producer; a waiting one is woken. */
    private void simpleQueue() throws Exception {
        SimpleDistributedQueue source = new SimpleDistributedQueue(client(), root + "/simple");
        Set<String> taken = ConcurrentHashMap.newKeySet();
        for (int number = 0; number < 20; number++) {
            check(source.offer(("item " + number).getBytes()), "not put");
        }
        check("item 0".equals(new String(source.peek())), "the first item");
        together(2, number -> {
            SimpleDistributedQueue sink = new SimpleDistributedQueue(client(), root + "/simple");
            for (byte[] item = sink.poll(); item != null; item = sink.poll()) {
                check(taken.add(new String(item)), "taken twice");
            }
        });
        check(taken.size() == 20, "taken " + taken.size());
        SimpleDistributedQueue waiter = new SimpleDistributedQueue(client(), root + "/simple");
        together(2, number -> {
            if (number == 0) {
                check("woken".equals(new String(waiter.poll(WAIT_S, TimeUnit.SECONDS))), "not woken");
            } else {
                source.offer("woken".getBytes());
            }
        });
    }

    private void watches() throws Exception {
        CuratorFramework client = client();
        BlockingQueue<String> told = new LinkedBlockingQueue<>();
        client.create().forPath(root + "/w");
        client.watchers().add().withMode(AddWatchMode.PERSISTENT_RECURSIVE)
                .usingWatcher((Watcher) event -> told.add(event.getType() + " " + event.getPath()))
                .forPath(root + "/w");
        client.create().forPath(root + "/w/x");
        check(("NodeCreated " + root + "/w/x").equals(told.poll(WAIT_S, TimeUnit.SECONDS)), "created was not told");
        client.delete().forPath(root + "/w/x");
        check(("NodeDeleted " + root + "/w/x").equals(told.poll(WAIT_S, TimeUnit.SECONDS)), "deleted was not told");
        client.watchers().removeAll().forPath(root + "/w");
        client.sync().forPath(root);
        check(client.getZookeeperClient().getZooKeeper().getConfig(false, new Stat()) != null, "configuration");
        client.create().forPath(root + "/w/unseen");
        client.getData().forPath(root + "/w/unseen");
        String left = told.peek();
        check(left == null || left.startsWith("PersistentWatchRemoved"), "told after the removal: " + left);
    }

    private void persistentWatcher() throws Exception {
        CuratorFramework client = client();
        BlockingQueue<String> told = new LinkedBlockingQueue<>();
        CountDownLatch ready = new CountDownLatch(1);
        client.create().forPath(root + "/pw");
        try (PersistentWatcher watcher = new PersistentWatcher(client(), root + "/pw", true)) {
            watcher.getListenable().addListener(event -> {
                if (event.getPath() != null) {
                    told.add(event.getType() + " " + event.getPath());
                }
            });
            watcher.getResetListenable().addListener(ready::countDown);
            watcher.start();
            check(ready.await(WAIT_S, TimeUnit.SECONDS), "not set");
            client.create().forPath(root + "/pw/x");
            client.setData().forPath(root + "/pw/x", "1".getBytes());
            client.setData().forPath(root + "/pw/x", "2".getBytes());
            client.delete().forPath(root + "/pw/x");
            for (String kind : List.of("NodeCreated", "NodeDataChanged", "NodeDataChanged", "NodeDeleted")) {
                String event = told.poll(WAIT_S, TimeUnit.SECONDS);
                check((kind + " " + root + "/pw/x").equals(event), kind + " is " + event);
            }
        }
    }

    /** The session ends on the server; the client gets a new one, and what lived by the old one is gone. */
    private void lostSession() throws Exception {
        CuratorFramework client = client();
        CountDownLatch lost = new CountDownLatch(1);
        CountDownLatch back = new CountDownLatch(1);
        client.getConnectionStateListenable().addListener((who, state) -> {
            if (state == ConnectionState.LOST) {
                lost.countDown();
            } else if (state == ConnectionState.RECONNECTED) {
                back.countDown();
            }
        });
        client.create().withMode(CreateMode.EPHEMERAL).forPath(root + "/mine");
        ZooKeeper keeper = client.getZookeeperClient().getZooKeeper();
        ZooKeeper twin = new ZooKeeper(connect, SESSION_MS, event -> {
        }, keeper.getSessionId(), keeper.getSessionPasswd());
        eventually("the twin", () -> twin.getState() == ZooKeeper.States.CONNECTED);
        twin.close();
        check(lost.await(WAIT_S, TimeUnit.SECONDS), "the loss was not told");
        check(back.await(WAIT_S, TimeUnit.SECONDS), "no new session");
        check(client.checkExists().forPath(root + "/mine") == null, "an ephemeral outlived its session");
    }

    private void treeDeletion() throws Exception {
        CuratorFramework client = client();
        for (int number = 0; number < 20; number++) {
            client.create().creatingParentsIfNeeded().forPath(root + "/tree/" + number % 4 + "/" + number);
        }
        ZKPaths.deleteChildren(client.getZookeeperClient().getZooKeeper(), root + "/tree", true);
        check(client.checkExists().forPath(root + "/tree") == null, "a tree stayed");
        client.delete().guaranteed().deletingChildrenIfNeeded().forPath(root);
    }
}
