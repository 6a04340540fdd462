package org.apache.kafka.connect.runtime.distributed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeAssignor.ClusterAssignment;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator.ConnectorsAndTasks;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Kafka's own assignors on given groups: KafkaAssignors CASES ANSWERS, both files of JSON.
 *
 * A case of kind "consumers" is one group, which each of the four consumer assignors is asked for. A case of kind
 * "workers" is the life of a group of Connect: after each step the workers ask until nothing is revoked any more, or as often as the step says.
 * The class stands in Connect's package, because the method that returns an assignment is not public.
 */
public final class KafkaAssignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    private KafkaAssignors() {}

    public static void main(String[] words) throws Exception {
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode one : JSON.readTree(new File(words[0]))) {
            answers.add(one.get("kind").asText().equals("workers") ? workers(one) : consumers(one));
        }
        JSON.writeValue(new File(words[1]), answers);
    }

    // --- consumers -----------------------------------------------------------------------------------------------

    private static ObjectNode consumers(JsonNode group) {
        ObjectNode answer = JSON.createObjectNode();
        Cluster cluster = cluster(group.get("topics"));
        answer.set("range", assigned(new RangeAssignor(), cluster, group));
        answer.set("round-robin", assigned(new RoundRobinAssignor(), cluster, group));
        answer.set("sticky", assigned(new StickyAssignor(), cluster, group));
        answer.set("cooperative-sticky", assigned(new CooperativeStickyAssignor(), cluster, group));
        return answer;
    }

    private static Cluster cluster(JsonNode topics) {
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            for (int number = 0; number < topic.getValue().asInt(); number++) {
                partitions.add(new PartitionInfo(topic.getKey(), number, Node.noNode(), new Node[0], new Node[0]));
            }
        });
        return new Cluster("cluster", Collections.emptyList(), partitions, Collections.emptySet(), Collections.emptySet());
    }

    private static ObjectNode assigned(ConsumerPartitionAssignor assignor, Cluster cluster, JsonNode group) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : group.get("members")) {
            subscriptions.put(member.get("id").asText(), subscription(assignor, member));
        }
        Map<String, Assignment> assignments =
            assignor.assign(cluster, new GroupSubscription(subscriptions)).groupAssignment();
        ObjectNode answer = JSON.createObjectNode();
        new TreeMap<>(assignments).forEach((id, assignment) -> {
            ArrayNode names = answer.putArray(id);
            assignment.partitions().forEach(partition -> names.add(partition.toString()));
        });
        return answer;
    }

    /** As a consumer makes it: the sticky assignors write the last assignment into bytes of their own. */
    private static Subscription subscription(ConsumerPartitionAssignor assignor, JsonNode member) {
        List<String> topics = texts(member.get("topics"));
        List<TopicPartition> owned = new ArrayList<>();
        for (String name : texts(member.get("owned"))) {
            int dash = name.lastIndexOf('-');
            owned.add(new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1))));
        }
        int generation = member.get("generation").asInt();
        Optional<String> instance = Optional.ofNullable(member.get("instance_id").textValue());
        ByteBuffer bytes = null;
        try {
            ConsumerPartitionAssignor own = assignor.getClass().getDeclaredConstructor().newInstance();
            if (generation >= 0) {
                own.onAssignment(
                    new Assignment(owned), new ConsumerGroupMetadata("g", generation, member.get("id").asText(), instance));
            }
            bytes = own.subscriptionUserData(new HashSet<>(topics));
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
        Subscription made = new Subscription(topics, bytes, owned, generation, Optional.empty());
        made.setGroupInstanceId(instance);
        return made;
    }

    private static List<String> texts(JsonNode array) {
        List<String> found = new ArrayList<>();
        array.forEach(one -> found.add(one.asText()));
        return found;
    }

    // --- workers -------------------------------------------------------------------------------------------------

    private static ArrayNode workers(JsonNode life) {
        long[] now = {0};
        Time time = (Time) Proxy.newProxyInstance(
            Time.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, given) -> method.getName().equals("milliseconds") ? (Object) now[0] : null);
        IncrementalCooperativeAssignor assignor =
            new IncrementalCooperativeAssignor(new LogContext(), time, life.get("delay_max_ms").asInt());
        Map<String, Set<ConnectorTaskId>> tasks = new TreeMap<>();
        Map<String, Set<String>> connectors = new TreeMap<>();
        int generation = 0;
        ArrayNode answer = JSON.createArrayNode();
        for (JsonNode step : life.get("steps")) {
            now[0] = step.get("now_ms").asLong();
            Set<String> alive = new TreeSet<>(texts(step.get("workers")));
            tasks.keySet().retainAll(alive);
            connectors.keySet().retainAll(alive);
            for (String worker : alive) {
                tasks.computeIfAbsent(worker, name -> new TreeSet<>());
                connectors.computeIfAbsent(worker, name -> new TreeSet<>());
            }
            ArrayNode rounds = answer.addArray();
            boolean hasRevoked = true;
            while (hasRevoked && rounds.size() < step.get("rounds").asInt()) {
                ClusterAssignment made = assignor.performTaskAssignment(
                    state(step.get("tasks").asInt()), generation - 1, generation, stated(connectors, tasks));
                generation++;
                hasRevoked = false;
                for (String worker : alive) {
                    Collection<ConnectorTaskId> revoked = made.newlyRevokedTasks(worker);
                    Collection<String> revokedConnectors = made.newlyRevokedConnectors(worker);
                    hasRevoked |= !revoked.isEmpty() || !revokedConnectors.isEmpty();
                    tasks.get(worker).removeAll(revoked);
                    tasks.get(worker).addAll(made.newlyAssignedTasks(worker));
                    connectors.get(worker).removeAll(revokedConnectors);
                    connectors.get(worker).addAll(made.newlyAssignedConnectors(worker));
                }
                ObjectNode round = rounds.addObject();
                round.put("delay_ms", assignor.delay);
                ObjectNode all = round.putObject("tasks");
                tasks.forEach((worker, has) -> {
                    ArrayNode names = all.putArray(worker);
                    has.forEach(task -> names.add(task.task()));
                });
            }
        }
        return answer;
    }

    private static Map<String, ConnectorsAndTasks> stated(
        Map<String, Set<String>> connectors, Map<String, Set<ConnectorTaskId>> tasks
    ) {
        Map<String, ConnectorsAndTasks> made = new HashMap<>();
        tasks.forEach((worker, has) -> made.put(
            worker,
            new ConnectorsAndTasks.Builder().with(new ArrayList<>(connectors.get(worker)), new ArrayList<>(has)).build()));
        return made;
    }

    private static ClusterConfigState state(int count) {
        Map<ConnectorTaskId, Map<String, String>> configs = new HashMap<>();
        for (int number = 0; number < count; number++) {
            configs.put(new ConnectorTaskId("c", number), Collections.emptyMap());
        }
        return new ClusterConfigState(
            1, null, Collections.singletonMap("c", count), Collections.singletonMap("c", Collections.emptyMap()),
            Collections.emptyMap(), configs, Collections.emptyMap(), Collections.emptyMap(), Collections.emptyMap(),
            Collections.emptySet(), Collections.emptySet());
    }
}
