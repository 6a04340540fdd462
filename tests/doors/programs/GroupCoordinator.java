import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.ClientUtils;
import org.apache.kafka.clients.GroupRebalanceConfig;
import org.apache.kafka.clients.Metadata;
import org.apache.kafka.clients.NetworkClient;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.internals.AbstractCoordinator;
import org.apache.kafka.clients.consumer.internals.ConsumerNetworkClient;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.internals.ClusterResourceListeners;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupResponseData.JoinGroupResponseMember;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ChannelBuilder;
import org.apache.kafka.common.network.Selector;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;

/**
 * A group of its own kind on the Java client's AbstractCoordinator, as registries of schemas and others have one: the
 * leader of a generation gives each of four resources to a member. It tells what it is told, in lines with "event".
 *
 *     java GroupCoordinator BOOTSTRAP GROUP [INSTANCE] [NAME=VALUE ...]
 *
 * INSTANCE makes it a static member. NAME=VALUE are settings of the connection. SIGTERM ends it.
 */
public final class GroupCoordinator {
    private static final int RESOURCES = 4;
    private static final int SESSION_MS = 6000;
    private static final int STATIC_SESSION_MS = 45_000;
    private static final int REBALANCE_MS = 10_000;
    private static final int BEAT_MS = 500;
    private static final int RETRY_MS = 100;
    private static final int POLL_MS = 100;
    private static final int REQUEST_MS = 30_000;

    private GroupCoordinator() {}

    public static void main(String[] arguments) throws Exception {
        Time time = Time.SYSTEM;
        LogContext log = new LogContext();
        Metrics metrics = new Metrics(time);
        Metadata metadata = new Metadata(RETRY_MS, RETRY_MS, 60_000L, log, new ClusterResourceListeners());
        metadata.bootstrap(ClientUtils.parseAndValidateAddresses(List.of(arguments[0]), "use_all_dns_ips"));
        String deserializer = "org.apache.kafka.common.serialization.StringDeserializer";
        Map<String, Object> words = new HashMap<>(Map.of("bootstrap.servers", arguments[0],
            "key.deserializer", deserializer, "value.deserializer", deserializer));
        Optional<String> instance = Optional.empty();
        for (String argument : List.of(arguments).subList(2, arguments.length)) {
            int equals = argument.indexOf('=');
            if (equals < 0) {
                instance = Optional.of(argument);
            } else {
                words.put(argument.substring(0, equals), argument.substring(equals + 1));
            }
        }
        ConsumerConfig common = new ConsumerConfig(words);
        ChannelBuilder channels = ClientUtils.createChannelBuilder(common, time, log);
        Selector selector = new Selector(540_000L, metrics, time, "group", channels, log);
        NetworkClient network = new NetworkClient(selector, metadata, "coordinator", 100, RETRY_MS, 1000, -1, -1,
            REQUEST_MS, 10_000, 30_000, time, true, new ApiVersions(), log,
            org.apache.kafka.clients.MetadataRecoveryStrategy.NONE);
        ConsumerNetworkClient client =
            new ConsumerNetworkClient(log, network, metadata, time, RETRY_MS, REQUEST_MS, SESSION_MS);
        GroupRebalanceConfig settings = new GroupRebalanceConfig(
            instance.isPresent() ? STATIC_SESSION_MS : SESSION_MS, REBALANCE_MS, BEAT_MS, arguments[1], instance, RETRY_MS,
            1000L, instance.isEmpty());
        Member member = new Member(settings, log, client, metrics, time);
        AtomicBoolean isEnding = new AtomicBoolean();
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            isEnding.set(true);
            client.wakeup();
            try {
                closed.await();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }));
        try {
            while (!isEnding.get()) {
                member.run(time);
            }
        } catch (WakeupException error) {
            // It is to be closed.
        } catch (RuntimeException error) {
            tell("failed " + error.getClass().getSimpleName());
        } finally {
            member.closeNow(time);
            tell("closed");
            closed.countDown();
        }
    }

    private static void tell(String words) {
        System.out.println("event " + words);
        System.out.flush();
    }

    private static final class Member extends AbstractCoordinator {
        private final ConsumerNetworkClient client;

        Member(
                GroupRebalanceConfig settings, LogContext log, ConsumerNetworkClient client, Metrics metrics, Time time) {
            super(settings, log, client, metrics, "group", time);
            this.client = client;
        }

        void run(Time time) {
            ensureCoordinatorReady(time.timer(REQUEST_MS));
            ensureActiveGroup();
            pollHeartbeat(time.milliseconds());
            client.poll(time.timer(POLL_MS));
        }

        void closeNow(Time time) {
            close(time.timer(REBALANCE_MS));
        }

        @Override
        protected String protocolType() {
            return "raftmeta";
        }

        @Override
        protected JoinGroupRequestData.JoinGroupRequestProtocolCollection metadata() {
            return new JoinGroupRequestData.JoinGroupRequestProtocolCollection(
                List.of(protocol("even"), protocol("any")).iterator());
        }

        private static JoinGroupRequestData.JoinGroupRequestProtocol protocol(String name) {
            return new JoinGroupRequestData.JoinGroupRequestProtocol().setName(name).setMetadata(new byte[] {1});
        }

        @Override
        protected boolean onJoinPrepare(Timer timer, int generation, String memberId) {
            tell("revoked all");
            return true;
        }

        @Override
        protected Map<String, ByteBuffer> onLeaderElected(
                String leaderId, String protocol, List<JoinGroupResponseMember> members, boolean skipAssignment) {
            tell("leader of " + members.size() + (skipAssignment ? " again" : ""));
            TreeSet<String> names = new TreeSet<>();
            members.forEach(member -> names.add(member.memberId()));
            Map<String, StringBuilder> shares = new HashMap<>();
            names.forEach(name -> shares.put(name, new StringBuilder()));
            for (int resource = 0; resource < RESOURCES; resource++) {
                String name = List.copyOf(names).get(resource % names.size());
                shares.get(name).append(' ').append(resource);
            }
            Map<String, ByteBuffer> found = new HashMap<>();
            shares.forEach((name, share) -> found.put(name, StandardCharsets.UTF_8.encode(share.toString())));
            return found;
        }

        @Override
        protected void onJoinComplete(int generation, String memberId, String protocol, ByteBuffer assignment) {
            tell("generation " + generation);
            tell("assigned" + StandardCharsets.UTF_8.decode(assignment));
        }
    }
}
