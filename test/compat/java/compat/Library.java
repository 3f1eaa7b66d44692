package compat;

import static compat.Kit.admin;
import static compat.Kit.check;
import static compat.Kit.consumer;
import static compat.Kit.failed;
import static compat.Kit.fails;
import static compat.Kit.number;
import static compat.Kit.numbered;
import static compat.Kit.partitions;
import static compat.Kit.read;
import static compat.Kit.same;
import static compat.Kit.send;
import static compat.Kit.until;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Header;

/** The capabilities of kafka-clients, for every version of it. */
public final class Library {
    private Library() {}

    public static void main(String[] args) {
        Map<String, Kit.Job> jobs = new LinkedHashMap<>();
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            jobs.put("produce-" + codec, new Kit.Job(() -> produce("produce-" + codec, 300, "compression.type", codec, "enable.idempotence", "false")));
        }
        jobs.put("consume", new Kit.Job(() -> produce("consume", 5000, "compression.type", "lz4")));
        jobs.put("group", new Kit.Job(() -> Groups.group("group", "org.apache.kafka.clients.consumer.RangeAssignor")));
        jobs.put("admin", new Kit.Job(Library::administer));
        jobs.put("seek-time", new Kit.Job(Library::seekTime));
        jobs.put("headers", new Kit.Job(Library::headers));
        jobs.put("nulls", new Kit.Job(Library::nulls));
        jobs.put("big", new Kit.Job(Library::big));
        jobs.put("idempotent", new Kit.Job(() -> produce("idempotent", 2000, "linger.ms", "1", "batch.size", "1000")));
        jobs.put("broker-kill", new Kit.Job(() -> Groups.kills("broker-kill", 2)));
        jobs.put("group-cooperative", new Kit.Job(() -> Groups.group("group-cooperative", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor")));
        jobs.put("group-static", new Kit.Job(Members::statics));
        jobs.put("group-pattern", new Kit.Job(Members::pattern));
        jobs.put("group-admin", new Kit.Job(Members::administer));
        int rounds = Integer.parseInt(System.getenv().getOrDefault("ROUNDS", "0"));
        if (rounds > 0) {
            jobs.put("rounds", new Kit.Job(60 + 30 * rounds, "", () -> Groups.kills("rounds", rounds)));
        }
        Kit.main(args, jobs);
    }

    /** n records over three partitions come back exactly once, without a gap, those of a key in their order and in one partition. */
    private static void produce(String name, int n, Object... pairs) throws Exception {
        String topic = Kit.topic(name, 3);
        List<RecordMetadata> acks = send(numbered(topic, 0, n), pairs);
        List<ConsumerRecord<String, String>> got = read(partitions(topic, 3), n);
        same(got.size(), n, "records");
        ConsumerRecord<?, ?>[] byNumber = new ConsumerRecord<?, ?>[n];
        Map<Integer, Long> next = new HashMap<>();
        Map<String, ConsumerRecord<String, String>> last = new HashMap<>();
        for (ConsumerRecord<String, String> r : got) {
            same(r.offset(), next.getOrDefault(r.partition(), 0L), "offset in partition " + r.partition());
            next.put(r.partition(), r.offset() + 1);
            ConsumerRecord<String, String> before = last.put(r.key(), r);
            check(before == null || number(before) < number(r) && before.partition() == r.partition(), "order of " + r.key() + ": " + before + ", then " + r);
            ProducerRecord<String, String> sent = numbered(topic, number(r));
            same(r.key() + r.value(), sent.key() + sent.value(), "record");
            byNumber[number(r)] = r;
        }
        for (int i = 0; i < n; i++) {
            check(byNumber[i] != null, "record " + i + " is missing");
            same(byNumber[i].partition() + "@" + byNumber[i].offset(), acks.get(i).partition() + "@" + acks.get(i).offset(), "place of record " + i + " and of its acknowledgement");
        }
    }

    private static void administer() throws Exception {
        String topic = Kit.PREFIX + "admin";
        try (Admin a = admin()) {
            same(a.describeCluster().nodes().get().size(), 3, "brokers");
            NewTopic wanted = new NewTopic(topic, 2, (short) 3).configs(Map.of("segment.bytes", "1048576"));
            Uuid id = a.createTopics(List.of(wanted)).topicId(topic).get();
            fails(a.createTopics(List.of(wanted)).all(), TopicExistsException.class);
            TopicDescription d = describe(a, topic);
            same(d.topicId(), id, "topic id");
            same(d.partitions().size(), 2, "partitions");
            d.partitions().forEach(p -> check(p.replicas().size() == 3 && p.leader() != null, "partition " + p));
            configs(a, topic);
            a.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
            until("five partitions", () -> describe(a, topic).partitions().size() == 5);
            offsets(a, topic);
            check(a.listTopics().names().get().contains(topic), "the topic is not listed");
            a.deleteTopics(List.of(topic)).all().get();
            until("the topic is gone", () -> !a.listTopics().names().get().contains(topic));
            until("each broker that is asked has forgotten the topic", () -> failed(a.describeTopics(List.of(topic)).allTopicNames(), UnknownTopicOrPartitionException.class));
        }
    }

    private static TopicDescription describe(Admin a, String topic) throws Exception {
        return a.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }

    private static void configs(Admin a, String topic) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Kit.Condition[] all = {
            () -> has(a, resource, "segment.bytes", "1048576", ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG),
            () -> has(a, resource, "cleanup.policy", "delete", ConfigEntry.ConfigSource.DEFAULT_CONFIG),
        };
        for (Kit.Condition c : all) {
            check(c.holds(), "configs of a new topic: " + a.describeConfigs(List.of(resource)).all().get().get(resource));
        }
        alter(a, resource, "retention.ms", "123456", AlterConfigOp.OpType.SET);
        until("the changed config", () -> has(a, resource, "retention.ms", "123456", ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG));
        alter(a, resource, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND);
        until("the longer list", () -> has(a, resource, "cleanup.policy", "delete,compact", ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG));
        alter(a, resource, "cleanup.policy", "compact", AlterConfigOp.OpType.SUBTRACT);
        until("the shorter list", () -> has(a, resource, "cleanup.policy", "delete", ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG));
        alter(a, resource, "retention.ms", "", AlterConfigOp.OpType.DELETE);
        until("the default again", () -> has(a, resource, "retention.ms", "604800000", ConfigEntry.ConfigSource.DEFAULT_CONFIG));
    }

    private static void alter(Admin a, ConfigResource resource, String name, String value, AlterConfigOp.OpType op) throws Exception {
        a.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry(name, value), op)))).all().get();
    }

    private static boolean has(Admin a, ConfigResource resource, String name, String value, ConfigEntry.ConfigSource source) throws Exception {
        Config config = a.describeConfigs(List.of(resource)).all().get().get(resource);
        ConfigEntry e = config.get(name);
        return e != null && value.equals(e.value()) && e.source() == source;
    }

    /** Ten records in one partition: both ends, the largest timestamp, and what remains when the first four are deleted. */
    private static void offsets(Admin a, String topic) throws Exception {
        TopicPartition p = new TopicPartition(topic, 4);
        long base = 1_700_000_000_000L;
        send(IntStream.range(0, 10).mapToObj(i -> new ProducerRecord<>(topic, 4, base + (i == 6 ? 100 : i), "k", "v" + i)).toList());
        same(a.listOffsets(Map.of(p, OffsetSpec.earliest())).partitionResult(p).get().offset(), 0L, "earliest");
        same(a.listOffsets(Map.of(p, OffsetSpec.latest())).partitionResult(p).get().offset(), 10L, "latest");
        same(a.listOffsets(Map.of(p, OffsetSpec.maxTimestamp())).partitionResult(p).get().offset(), 6L, "offset of the largest timestamp");
        same(a.listOffsets(Map.of(p, OffsetSpec.forTimestamp(base + 3))).partitionResult(p).get().offset(), 3L, "offset of a time");
        same(a.deleteRecords(Map.of(p, RecordsToDelete.beforeOffset(4))).lowWatermarks().get(p).get().lowWatermark(), 4L, "low watermark");
        same(a.listOffsets(Map.of(p, OffsetSpec.earliest())).partitionResult(p).get().offset(), 4L, "earliest after the deletion");
        same(read(List.of(p), 6).get(0).value(), "v4", "first record after the deletion");
    }

    private static void seekTime() throws Exception {
        String topic = Kit.topic("seek-time", 1);
        long base = System.currentTimeMillis() - 100_000;
        send(IntStream.range(0, 100).mapToObj(i -> new ProducerRecord<>(topic, 0, base + i * 1000L, "k", "" + i)).toList());
        try (KafkaConsumer<String, String> c = consumer()) {
            TopicPartition p = new TopicPartition(topic, 0);
            c.assign(List.of(p));
            OffsetAndTimestamp found = c.offsetsForTimes(Map.of(p, base + 41_500)).get(p);
            same(found.offset() + "@" + found.timestamp(), "42@" + (base + 42_000), "offset of the time");
            same(c.offsetsForTimes(Map.of(p, base + 200_000)).get(p), null, "offset of a time to come");
            c.seek(p, found.offset());
            same(read(c, 58).stream().map(ConsumerRecord::value).toList(), IntStream.range(42, 100).mapToObj(i -> "" + i).toList(), "records from the time on");
        }
    }

    private static void headers() throws Exception {
        String topic = Kit.topic("headers", 1);
        ProducerRecord<String, String> r = new ProducerRecord<>(topic, "k", "v");
        byte[][] values = {"1".getBytes(StandardCharsets.UTF_8), {}, null, {0, -1}};
        List<String> keys = List.of("a", "b", "c", "a");
        for (int i = 0; i < values.length; i++) {
            r.headers().add(keys.get(i), values[i]);
        }
        send(List.of(r, new ProducerRecord<>(topic, "k", "none")));
        List<ConsumerRecord<String, String>> got = read(partitions(topic, 1), 2);
        Header[] headers = got.get(0).headers().toArray();
        same(Arrays.stream(headers).map(Header::key).toList(), keys, "keys of headers");
        for (int i = 0; i < values.length; i++) {
            check(Arrays.equals(headers[i].value(), values[i]), "value of header " + i + ": " + Arrays.toString(headers[i].value()));
        }
        same(got.get(1).headers().toArray().length, 0, "headers of a record without");
    }

    private static void nulls() throws Exception {
        String topic = Kit.topic("nulls", 1);
        List<ProducerRecord<String, String>> sent = new ArrayList<>();
        sent.add(new ProducerRecord<>(topic, null, "v"));
        sent.add(new ProducerRecord<>(topic, "k", null));
        sent.add(new ProducerRecord<>(topic, "", ""));
        sent.add(new ProducerRecord<>(topic, null, null));
        send(sent);
        same(read(partitions(topic, 1), 4).stream().map(r -> Arrays.asList(r.key(), r.value())).toList(), sent.stream().map(r -> Arrays.asList(r.key(), r.value())).toList(), "keys and values");
    }

    /** Records near the usual limit of a megabyte between small ones come also where a fetch allows less than their size. */
    private static void big() throws Exception {
        String topic = Kit.topic("big", 1);
        Random random = new Random();
        List<String> sent = new ArrayList<>();
        for (int size : List.of(10, 950_000, 10, 500_000, 10)) {
            sent.add(random.ints(size, 'a', 'z' + 1).collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append).toString());
        }
        send(sent.stream().map(v -> new ProducerRecord<>(topic, "k", v)).toList());
        same(read(partitions(topic, 1), 5).stream().map(ConsumerRecord::value).toList().equals(sent), true, "the values are the same");
        List<ConsumerRecord<String, String>> small = read(partitions(topic, 1), 5, "fetch.max.bytes", "10000", "max.partition.fetch.bytes", "10000");
        same(small.stream().map(ConsumerRecord::value).toList().equals(sent), true, "the values are the same with small fetches");
    }
}
