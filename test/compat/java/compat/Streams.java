package compat;

import static compat.Kit.check;
import static compat.Kit.same;
import static compat.Kit.until;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/**
 * Kafka Streams, at least once: words are counted with a repartition topic, a state store and its changelog. Where no broker dies the counts are exact,
 * also when an instance leaves in the middle or the state is restored from the changelog.
 */
public final class Streams {
    private static final int PARTITIONS = 4;
    private static final int WORDS = 23;
    private static final String STORE = "counts";

    private final String input;
    private final String output;
    private final String application;
    private final Map<String, Long> want = new HashMap<>();
    private final AtomicLong restored = new AtomicLong();
    private volatile Throwable failure;
    private int sent;

    private Streams(String name) throws Exception {
        input = Kit.topic(name + "-in", PARTITIONS);
        output = Kit.topic(name + "-out", PARTITIONS);
        application = Kit.PREFIX + name;
    }

    public static void main(String[] args) {
        Map<String, Kit.Job> jobs = new LinkedHashMap<>();
        jobs.put("word-count", new Kit.Job(Streams::wordCount));
        jobs.put("restore", new Kit.Job(Streams::restore));
        jobs.put("word-count-kill", new Kit.Job(Streams::kills));
        Kit.main(args, jobs);
    }

    /** Two instances share the work, one is closed in the middle. */
    private static void wordCount() throws Exception {
        Streams s = new Streams("word-count");
        KafkaStreams a = s.instance();
        KafkaStreams b = s.instance();
        s.send(2000);
        s.until("both instances count", () -> stored(a) > 0 && stored(b) > 0);
        s.counted();
        s.topics();
        s.send(1000);
        s.close(b);
        s.send(1000);
        s.counted();
        s.until("the store of the last instance has everything", () -> stored(a) == s.sent);
        s.purged();
        s.close(a);
        s.exact();
    }

    /** An instance with an empty directory takes the counts from the changelog. */
    private static void restore() throws Exception {
        Streams s = new Streams("restore");
        KafkaStreams a = s.instance();
        s.send(2000);
        s.counted();
        s.close(a);
        same(s.restored.get(), 0L, "records restored before anything was counted");
        s.send(500);
        KafkaStreams b = s.instance();
        s.counted();
        check(s.restored.get() > 0, "nothing was restored");
        s.until("the store has everything", () -> stored(b) == s.sent);
        s.close(b);
        s.exact();
    }

    /** Two instances while brokers die: nothing is lost. That a record is counted twice then is allowed. */
    private static void kills() throws Exception {
        Streams s = new Streams("kill");
        KafkaStreams a = s.instance();
        KafkaStreams b = s.instance();
        AtomicBoolean stop = new AtomicBoolean();
        Thread feeder = new Thread(() -> {
            try {
                while (!stop.get()) {
                    s.send(100);
                }
            } catch (Exception e) {
                s.failure = e;
            }
        });
        feeder.start();
        for (int i = 0; i < 3; i++) {
            long goal = s.total() + 500;
            s.until("500 more words are counted", () -> s.total() >= goal);
            if (i < 2) {
                Kit.kill();
            }
        }
        stop.set(true);
        feeder.join();
        s.until("nothing is lost", () -> s.last().entrySet().stream().filter(e -> e.getValue() >= s.want.get(e.getKey())).count() == WORDS);
        System.out.println(s.sent + " words sent, " + s.total() + " counted");
        s.close(a);
        s.close(b);
    }

    /** The sum of the last counts. */
    private long total() throws Exception {
        return last().values().stream().mapToLong(Long::longValue).sum();
    }

    /** Starts an instance with a directory of its own, and returns when it runs. */
    private KafkaStreams instance() throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.as(STORE))
            .toStream()
            .mapValues(String::valueOf)
            .to(output, Produced.with(Serdes.String(), Serdes.String()));
        Path dir = Files.createTempDirectory("streams");
        Properties p = new Properties();
        p.putAll(Kit.settings(Kit.BROKERS, "application.id", application, "state.dir", dir.toString(), "commit.interval.ms", "200",
            "statestore.cache.max.bytes", "0", "repartition.purge.interval.ms", "500", "auto.offset.reset", "earliest"));
        KafkaStreams k = new KafkaStreams(builder.build(), p);
        k.setUncaughtExceptionHandler(e -> {
            failure = e;
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        k.setGlobalStateRestoreListener(new StateRestoreListener() {
            @Override
            public void onRestoreStart(TopicPartition p, String store, long from, long to) {}

            @Override
            public void onBatchRestored(TopicPartition p, String store, long to, long n) {
                restored.addAndGet(n);
            }

            @Override
            public void onRestoreEnd(TopicPartition p, String store, long total) {}
        });
        k.start();
        until("the instance runs", () -> k.state() == KafkaStreams.State.RUNNING);
        return k;
    }

    private void close(KafkaStreams k) {
        CloseOptions leave = CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        check(k.close(leave.withTimeout(Duration.ofSeconds(30))), "the instance was not closed in 30 s");
    }

    /** Waits as Kit.until, and fails at once when a thread has failed. */
    private void until(String what, Kit.Condition condition) throws Exception {
        Kit.until(what, () -> {
            if (failure != null) {
                throw new AssertionError("a thread failed: " + failure, failure);
            }
            return condition.holds();
        });
    }

    /** Sends n more words, all of them in turn, under keys that have nothing to do with the words. */
    private void send(int n) throws Exception {
        Kit.send(IntStream.range(sent, sent + n).mapToObj(i -> new ProducerRecord<>(input, "key-" + i, word(i))).toList());
        IntStream.range(sent, sent + n).forEach(i -> want.merge(word(i), 1L, Long::sum));
        sent += n;
    }

    private static String word(int i) {
        return "word-" + i % WORDS;
    }

    /** How many words an instance has in its part of the store; 0 while it has none. */
    private static long stored(KafkaStreams k) {
        if (k.state() != KafkaStreams.State.RUNNING) {
            return 0;
        }
        long n = 0;
        try (var all = k.store(StoreQueryParameters.fromNameAndType(STORE, QueryableStoreTypes.<String, Long>keyValueStore())).all()) {
            while (all.hasNext()) {
                n += all.next().value;
            }
        } catch (InvalidStateStoreException e) {
            return 0; // a rebalance has begun
        }
        return n;
    }

    /** The last count of every word in the output. */
    private Map<String, Long> last() throws Exception {
        return outputs().stream().collect(Collectors.toMap(ConsumerRecord::key, r -> Long.parseLong(r.value()), (earlier, later) -> later));
    }

    private List<ConsumerRecord<String, String>> outputs() {
        List<TopicPartition> all = Kit.partitions(output, PARTITIONS);
        try (KafkaConsumer<String, String> c = Kit.consumer()) {
            c.assign(all);
            c.seekToBeginning(all);
            return Kit.read(c, (int) c.endOffsets(all).values().stream().mapToLong(Long::longValue).sum());
        }
    }

    /** Waits until the output has every count. */
    private void counted() throws Exception {
        until("every count is in the output", () -> last().equals(want));
    }

    /** Every record was counted once: the counts of a word in the output are 1, 2, 3 and so on. */
    private void exact() {
        Map<String, Long> before = new HashMap<>();
        outputs().forEach(r -> same(Long.parseLong(r.value()), before.merge(r.key(), 1L, Long::sum), "count of " + r.key() + " at offset " + r.offset()));
        same(before, want, "counts");
    }

    private String internal(String name) {
        return application + "-" + name;
    }

    /** The internal topics are as Streams wants them. */
    private void topics() throws Exception {
        ConfigResource changelog = new ConfigResource(ConfigResource.Type.TOPIC, internal("counts-changelog"));
        ConfigResource repartition = new ConfigResource(ConfigResource.Type.TOPIC, internal("words-repartition"));
        try (Admin a = Kit.admin()) {
            Map<ConfigResource, Config> configs = a.describeConfigs(List.of(changelog, repartition)).all().get();
            same(configs.get(changelog).get("cleanup.policy").value(), "compact", "cleanup.policy of the changelog");
            same(configs.get(repartition).get("cleanup.policy").value(), "delete", "cleanup.policy of the repartition topic");
            same(configs.get(repartition).get("retention.ms").value(), "-1", "retention.ms of the repartition topic");
            a.describeTopics(List.of(changelog.name(), repartition.name())).allTopicNames().get()
                .forEach((name, d) -> same(d.partitions().size(), PARTITIONS, "partitions of " + name));
        }
    }

    /** Streams deletes what it has read from the repartition topic. */
    private void purged() throws Exception {
        List<TopicPartition> all = Kit.partitions(internal("words-repartition"), PARTITIONS);
        try (Admin a = Kit.admin()) {
            Map<TopicPartition, OffsetSpec> earliest = all.stream().collect(Collectors.toMap(p -> p, p -> OffsetSpec.earliest()));
            until("the repartition topic is purged", () -> a.listOffsets(earliest).all().get().values().stream().mapToLong(o -> o.offset()).sum() == sent);
        }
    }
}
