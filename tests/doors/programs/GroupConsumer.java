import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a group that reads a topic and tells what it is told, in lines that begin with "event".
 *
 *     java GroupConsumer BOOTSTRAP GROUP TOPIC [SETTING=VALUE ...]
 *
 * SIGTERM closes it. It commits after each batch of records.
 */
public final class GroupConsumer {
    private static final Duration POLL = Duration.ofMillis(200);

    private GroupConsumer() {}

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("client.id", "java");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        for (int at = 3; at < arguments.length; at++) {
            int equals = arguments[at].indexOf('=');
            settings.put(arguments[at].substring(0, equals), arguments[at].substring(equals + 1));
        }
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings);
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                closed.await();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }));
        try {
            run(consumer, arguments[2]);
        } finally {
            consumer.close();
            tell("closed", List.of());
            closed.countDown();
        }
    }

    private static void run(KafkaConsumer<String, String> consumer, String topic) {
        int read = 0;
        consumer.subscribe(List.of(topic), new Listener(consumer));
        try {
            while (true) {
                int count = consumer.poll(POLL).count();
                if (count > 0) {
                    consumer.commitSync();
                    read += count;
                    System.out.println("event read " + read);
                }
            }
        } catch (WakeupException error) {
            // It is to be closed.
        } catch (RuntimeException error) {
            System.out.println("event failed " + error.getClass().getSimpleName());
        }
    }

    private static void tell(String word, Collection<TopicPartition> partitions) {
        StringBuilder line = new StringBuilder("event ").append(word);
        TreeSet<Integer> numbers = new TreeSet<>();
        partitions.forEach(partition -> numbers.add(partition.partition()));
        numbers.forEach(number -> line.append(' ').append(number));
        System.out.println(line);
        System.out.flush();
    }

    private static final class Listener implements ConsumerRebalanceListener {
        private final KafkaConsumer<String, String> consumer;

        Listener(KafkaConsumer<String, String> consumer) {
            this.consumer = consumer;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            System.out.println("event generation " + consumer.groupMetadata().generationId());
            tell("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            tell("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            tell("lost", partitions);
        }
    }
}
