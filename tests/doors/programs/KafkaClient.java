import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RenewDelegationTokenOptions;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What a user of Kafka does, asked for by lines of the standard input. The answer is one line: "ok ..." or "failed ...".
 *
 *     java KafkaClient BOOTSTRAP SASL_BOOTSTRAP
 *
 * Commands: brokers N | controller | topic NAME PARTITIONS REPLICAS | topics PREFIX COUNT PARTITIONS REPLICAS |
 * delete PREFIX | led REPLICAS | produce TOPIC COUNT | consume TOPIC COUNT | transaction TOPIC | configs TOPIC |
 * acls | token | grow TOPIC PARTITIONS | reassign TOPIC BROKER ... | steady TOPIC | steady-end TOPIC | faults
 *
 * After "faults" a topic that exists counts as made, and one that is unknown as deleted: a broker that lost its
 * connection to ZooKeeper asks again, and then finds what its first request did. No two topics have one name.
 *
 * A command waits until what it asked for is to be seen, for WAIT_S at most.
 */
public final class KafkaClient {
    private static final int WAIT_S = 90;

    private final String bootstrap;
    private final String saslBootstrap;
    private final Admin admin;
    private Steady steady;
    private boolean hasFaults;

    private KafkaClient(String bootstrap, String saslBootstrap) {
        this.bootstrap = bootstrap;
        this.saslBootstrap = saslBootstrap;
        admin = Admin.create(common());
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // what libraries print is no answer
        KafkaClient client = new KafkaClient(arguments[0], arguments[1]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = "ok " + client.run(line.split(" "));
            } catch (Throwable error) {
                error.printStackTrace();
                answer = "failed " + error;
            }
            answers.println(answer.replace('\n', ' '));
            answers.flush();
        }
        System.exit(0);
    }

    private String run(String[] words) throws Exception {
        switch (words[0]) {
            case "brokers":
                return brokers(Integer.parseInt(words[1]));
            case "controller":
                return Integer.toString(admin.describeCluster().controller().get().id());
            case "topic":
                return topics(List.of(words[1]), Integer.parseInt(words[2]), Short.parseShort(words[3]));
            case "topics":
                List<String> names = new ArrayList<>();
                for (int number = 0; number < Integer.parseInt(words[2]); number++) {
                    names.add(words[1] + number);
                }
                return topics(names, Integer.parseInt(words[3]), Short.parseShort(words[4]));
            case "delete":
                return delete(words[1]);
            case "led":
                return led(Integer.parseInt(words[1]));
            case "produce":
                return produce(words[1], Integer.parseInt(words[2]));
            case "consume":
                return consume(words[1], Integer.parseInt(words[2]));
            case "transaction":
                return transaction(words[1]);
            case "configs":
                return configs(words[1]);
            case "acls":
                return acls();
            case "token":
                return token();
            case "grow":
                return grow(words[1], Integer.parseInt(words[2]));
            case "reassign":
                return reassign(words[1], Arrays.stream(words).skip(2).map(Integer::parseInt).toList());
            case "faults":
                hasFaults = true;
                return "expected";
            case "steady":
                steady = new Steady(words[1]);
                steady.start();
                return "begun";
            case "steady-end":
                return steady.verify(words[1]);
            default:
                throw new IllegalArgumentException("no command: " + words[0]);
        }
    }

    private Properties common() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("request.timeout.ms", "10000");
        settings.put("default.api.timeout.ms", Integer.toString(1000 * WAIT_S));
        settings.put("retry.backoff.ms", "50");
        settings.put("reconnect.backoff.max.ms", "500");
        settings.put("metadata.max.age.ms", "1000"); // else a client may know only a broker that is dead
        return settings;
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    /** Wait for a condition; what a broker refuses meanwhile is asked for again. */
    private static void eventually(String what, Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_S);
        Exception last = null;
        while (System.nanoTime() < deadline) {
            try {
                if (condition.call()) {
                    return;
                }
            } catch (ExecutionException refused) {
                last = refused;
            }
            TimeUnit.MILLISECONDS.sleep(20);
        }
        throw new AssertionError("not within " + WAIT_S + " s: " + what, last);
    }

    /**
     * Any broker says who is there, and one that was paused says what it knew before. The controller decides where
     * topics go: it must know so many brokers, too.
     */
    private String brokers(int count) throws Exception {
        NewTopic topic = new NewTopic("never-made", 1, (short) count);
        eventually(count + " brokers", () -> {
            if (admin.describeCluster().nodes().get().size() != count) {
                return false;
            }
            admin.createTopics(List.of(topic), new CreateTopicsOptions().validateOnly(true)).all().get();
            return true;
        });
        return Integer.toString(count);
    }

    /** Wait for each, and pass over the refusal that means that it was done before. */
    private void done(Collection<KafkaFuture<Void>> all, Class<? extends Exception> before) throws Exception {
        for (KafkaFuture<Void> one : all) {
            try {
                one.get();
            } catch (ExecutionException error) {
                if (!hasFaults || !before.isInstance(error.getCause())) {
                    throw error;
                }
            }
        }
    }

    private String topics(List<String> names, int partitions, short replicas) throws Exception {
        List<NewTopic> topics = names.stream().map(name -> new NewTopic(name, partitions, replicas)).toList();
        done(admin.createTopics(topics).values().values(), TopicExistsException.class);
        eventually("all to be led", () -> isLed(names, partitions, replicas));
        return names.size() + " topics";
    }

    private boolean isLed(Collection<String> names, int partitions, int replicas) throws Exception {
        for (TopicDescription topic : admin.describeTopics(names).allTopicNames().get().values()) {
            if (topic.partitions().size() != partitions || !hasReplicas(topic, replicas)) {
                return false;
            }
        }
        return true;
    }

    private static boolean hasReplicas(TopicDescription topic, int replicas) {
        for (TopicPartitionInfo partition : topic.partitions()) {
            if (partition.leader() == null || partition.leader().isEmpty()
                    || partition.isr().size() < Math.min(replicas, partition.replicas().size())) {
                return false;
            }
        }
        return true;
    }

    private Set<String> names() throws Exception {
        return admin.listTopics().names().get();
    }

    private String delete(String prefix) throws Exception {
        List<String> names = names().stream().filter(name -> name.startsWith(prefix)).toList();
        check(!names.isEmpty(), "nothing to delete");
        done(admin.deleteTopics(names).topicNameValues().values(), UnknownTopicOrPartitionException.class);
        eventually("none left", () -> names().stream().noneMatch(name -> name.startsWith(prefix)));
        return names.size() + " topics";
    }

    /** Every partition has a leader and so many replicas in sync. */
    private String led(int replicas) throws Exception {
        eventually("all partitions to be led by " + replicas, () -> {
            Collection<TopicDescription> all = admin.describeTopics(names()).allTopicNames().get().values();
            return !all.isEmpty() && all.stream().allMatch(topic -> hasReplicas(topic, replicas));
        });
        return "led";
    }

    private Properties producing() {
        Properties settings = common();
        settings.remove("default.api.timeout.ms");
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        settings.put("acks", "all");
        settings.put("delivery.timeout.ms", Integer.toString(1000 * WAIT_S));
        settings.put("max.block.ms", Integer.toString(1000 * WAIT_S));
        return settings;
    }

    private String produce(String topic, int count) throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(producing())) {
            List<java.util.concurrent.Future<?>> sent = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                sent.add(producer.send(new ProducerRecord<>(topic, Integer.toString(number), "v" + number)));
            }
            for (java.util.concurrent.Future<?> one : sent) {
                one.get();
            }
        }
        return count + " records";
    }

    /** By a consumer group, which makes Kafka's own topic of offsets. */
    private String consume(String topic, int count) throws Exception {
        check(read(topic, "read_uncommitted", count).size() >= count, "too few records");
        return count + " records";
    }

    private List<String> read(String topic, String isolation, int count) {
        Properties settings = common();
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        settings.put("group.id", "group-" + UUID.randomUUID());
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", isolation);
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(topic));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_S);
            while (found.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    found.add(record.value());
                }
            }
            consumer.commitSync();
        }
        return found;
    }

    private String transaction(String topic) throws Exception {
        Properties settings = producing();
        settings.put("transactional.id", "transaction-" + UUID.randomUUID());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "k", "aborted")).get();
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "k", "committed")).get();
            producer.commitTransaction();
        }
        List<String> found = read(topic, "read_committed", 1);
        check(found.equals(List.of("committed")), "read " + found);
        return "committed";
    }

    private void set(ConfigResource resource, String name, String value) throws Exception {
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
        eventually(resource + " " + name, () -> {
            ConfigEntry entry = admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
            return entry != null && value.equals(entry.value());
        });
    }

    private String configs(String topic) throws Exception {
        int broker = admin.describeCluster().nodes().get().iterator().next().id();
        set(new ConfigResource(ConfigResource.Type.TOPIC, topic), "retention.ms", "86400001");
        set(new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(broker)), "log.cleaner.threads", "2");
        set(new ConfigResource(ConfigResource.Type.BROKER, ""), "log.retention.ms", "86400002");
        ClientQuotaEntity user = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "alice"));
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(user,
                List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1_048_576.0))))).all().get();
        eventually("the quota", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get()
                .getOrDefault(user, Map.of()).containsKey("producer_byte_rate"));
        ScramCredentialInfo kind = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
        admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("alice", kind, "secret"))).all().get();
        eventually("the credentials", () -> admin.describeUserScramCredentials(List.of("alice")).all().get()
                .get("alice").credentialInfos().size() == 1);
        return "5 kinds";
    }

    private String acls() throws Exception {
        List<AclBinding> bindings = new ArrayList<>();
        for (PatternType pattern : List.of(PatternType.LITERAL, PatternType.PREFIXED)) {
            for (AclOperation operation : List.of(AclOperation.READ, AclOperation.WRITE)) {
                bindings.add(new AclBinding(new ResourcePattern(ResourceType.TOPIC, "secret-" + pattern, pattern),
                        new AccessControlEntry("User:alice", "*", operation, AclPermissionType.ALLOW)));
            }
        }
        admin.createAcls(bindings).all().get();
        eventually("the rights", () -> admin.describeAcls(AclBindingFilter.ANY).values().get().containsAll(bindings));
        admin.deleteAcls(List.of(bindings.get(0).toFilter())).all().get();
        eventually("a right to be gone",
                () -> !admin.describeAcls(AclBindingFilter.ANY).values().get().contains(bindings.get(0)));
        return bindings.size() + " bindings";
    }

    private String token() throws Exception {
        Properties settings = common();
        settings.put("bootstrap.servers", saslBootstrap);
        settings.put("security.protocol", "SASL_PLAINTEXT");
        settings.put("sasl.mechanism", "PLAIN");
        settings.put("sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required "
                + "username=\"admin\" password=\"admin\";");
        try (Admin owner = Admin.create(settings)) {
            DelegationToken token = owner.createDelegationToken().delegationToken().get();
            eventually("the token", () -> owner.describeDelegationToken().delegationTokens().get().stream()
                    .anyMatch(one -> one.tokenInfo().tokenId().equals(token.tokenInfo().tokenId())));
            owner.renewDelegationToken(token.hmac(), new RenewDelegationTokenOptions().renewTimePeriodMs(7_200_000))
                    .expiryTimestamp().get();
            owner.expireDelegationToken(token.hmac(), new ExpireDelegationTokenOptions().expiryTimePeriodMs(-1))
                    .expiryTimestamp().get();
            eventually("no token", () -> owner.describeDelegationToken().delegationTokens().get().isEmpty());
        }
        return "created, renewed, expired";
    }

    private String grow(String topic, int partitions) throws Exception {
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(partitions))).all().get();
        eventually("more partitions", () -> isLed(List.of(topic), partitions, 1));
        return partitions + " partitions";
    }

    /** Partition 0 to these brokers, and then to the leader that they prefer. */
    private String reassign(String topic, List<Integer> brokers) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        admin.alterPartitionReassignments(Map.of(partition, Optional.of(new NewPartitionReassignment(brokers))))
                .all().get();
        eventually("the reassignment", () -> {
            TopicDescription described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            List<Integer> replicas = described.partitions().get(0).replicas().stream().map(one -> one.id()).toList();
            return replicas.equals(brokers) && hasReplicas(described, brokers.size())
                    && admin.listPartitionReassignments().reassignments().get().isEmpty();
        });
        try {
            admin.electLeaders(ElectionType.PREFERRED, Collections.singleton(partition)).all().get();
        } catch (ExecutionException error) { // it leads already
            check(error.getCause() instanceof org.apache.kafka.common.errors.ElectionNotNeededException, "" + error);
        }
        eventually("the preferred leader", () -> admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic)
                .partitions().get(0).leader().id() == brokers.get(0));
        return "to " + brokers;
    }

    /** A producer that goes on until it is told to end, and knows which of its records were acknowledged. */
    private final class Steady extends Thread {
        private final String topic;
        private final ConcurrentLinkedQueue<String> acknowledged = new ConcurrentLinkedQueue<>();
        private volatile boolean isEnding;

        Steady(String topic) {
            this.topic = topic;
        }

        @Override
        public void run() {
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(producing())) {
                for (int number = 0; !isEnding; number++) {
                    String value = "steady" + number;
                    producer.send(new ProducerRecord<>(topic, value, value), (metadata, error) -> {
                        if (error == null) {
                            acknowledged.add(value);
                        }
                    });
                    TimeUnit.MILLISECONDS.sleep(10);
                }
            } catch (InterruptedException error) {
                throw new AssertionError(error);
            }
        }

        String verify(String name) throws Exception {
            check(name.equals(topic), "steady writes to " + topic);
            isEnding = true;
            join();
            Map<String, Integer> left = new HashMap<>();
            acknowledged.forEach(value -> left.put(value, 1));
            int written = left.size();
            check(written > 0, "nothing was acknowledged");
            for (String value : read(topic, "read_uncommitted", written)) {
                left.remove(value);
            }
            // A record that was sent twice, because its first answer was lost, made the reading end too early.
            if (!left.isEmpty()) {
                for (String value : read(topic, "read_uncommitted", 2 * written)) {
                    left.remove(value);
                }
            }
            check(left.isEmpty(), "lost of " + written + ": "
                    + new TreeSet<>(left.keySet()).stream().limit(5).collect(Collectors.joining(" ")));
            return written + " acknowledged, none lost";
        }
    }
}
