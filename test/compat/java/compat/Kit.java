package compat;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What every Java row needs: the contract with the driver (docs/compatibility.md), clients with their defaults, and checks. Nothing here waits
 * without an end: single waits end after WAIT, the whole capability with its own limit.
 */
final class Kit {
    static final String BROKERS = System.getenv("BROKERS");
    static final String PREFIX = System.getenv().getOrDefault("PREFIX", "");
    static final int WAIT = 60; // seconds for anything that is waited for
    private static final int LIMIT = 85; // seconds of a capability that asks for no more

    private static final BufferedReader DRIVER = new BufferedReader(new InputStreamReader(System.in));

    private static final List<Runnable> AT_END = new ArrayList<>();

    private Kit() {}

    interface Body {
        void run() throws Exception;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    /** A capability: how many seconds it may take, what else the driver has to know, and what it does. */
    record Job(int seconds, String options, Body body) {
        Job(Body body) {
            this(LIMIT, "", body);
        }

        String line(String name) {
            return name + (seconds == LIMIT ? "" : " seconds=" + (seconds + 30)) + (options.isEmpty() ? "" : " " + options);
        }
    }

    /** The main function of a row: list, or one capability. It ends the process, whatever the clients' threads do. */
    static void main(String[] args, Map<String, Job> jobs) {
        if (args.length == 1 && args[0].equals("list")) {
            jobs.forEach((name, job) -> System.out.println(job.line(name)));
            return;
        }
        Job job = args.length == 1 ? jobs.get(args[0]) : null;
        if (job == null) {
            System.err.println("usage: list, or a capability");
            System.exit(2);
        }
        Thread watch = new Thread(() -> {
            pause(1000L * job.seconds());
            end(1, "not finished within " + job.seconds() + " s");
        });
        watch.setDaemon(true);
        watch.start();
        try {
            job.body().run();
            end(0, "");
        } catch (Throwable e) {
            e.printStackTrace();
            end(1, String.valueOf(e instanceof ExecutionException && e.getCause() != null ? e.getCause() : e));
        }
    }

    /** Does this before the process ends, however it ends but by a signal. */
    static synchronized void atEnd(Runnable what) {
        AT_END.add(what);
    }

    private static synchronized void end(int status, String error) {
        AT_END.forEach(Runnable::run);
        System.out.flush();
        System.err.println(error.replace('\n', ' '));
        System.err.flush();
        Runtime.getRuntime().halt(status);
    }

    /** Asks the driver to kill a broker with SIGKILL, and returns when that is back in every ISR. */
    static void kill() throws IOException {
        System.out.println("KILL");
        System.out.flush();
        same(DRIVER.readLine(), "KILLED", "answer of the driver");
    }

    static void check(boolean condition, String message) {
        if (!condition) {
            throw new AssertionError(message);
        }
    }

    /** Fails unless the call does, with this cause. */
    static void fails(KafkaFuture<?> f, Class<? extends Exception> how) throws InterruptedException {
        check(failed(f, how), "no " + how.getSimpleName());
    }

    /** Whether the call fails with this cause; with another it must not. */
    static boolean failed(KafkaFuture<?> f, Class<? extends Exception> how) throws InterruptedException {
        try {
            f.get();
        } catch (ExecutionException e) {
            check(how.isInstance(e.getCause()), "want " + how.getSimpleName() + ", got " + e.getCause());
            return true;
        }
        return false;
    }

    static <T> void same(T got, T want, String what) {
        if (!Objects.equals(got, want)) {
            throw new AssertionError(what + ": got " + brief(got) + ", want " + brief(want));
        }
    }

    private static String brief(Object x) {
        String text = String.valueOf(x);
        return text.length() > 200 ? text.substring(0, 200) + "..." : text;
    }

    /** Waits until the condition holds, and fails after WAIT with the words that say what was waited for. What takes long is printed. */
    static void until(String what, Condition condition) throws Exception {
        long begin = System.nanoTime();
        long end = begin + TimeUnit.SECONDS.toNanos(WAIT);
        while (!condition.holds()) {
            check(System.nanoTime() < end, "not within " + WAIT + " s: " + what);
            pause(20);
        }
        long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin);
        if (took > 1000) {
            System.out.println(took + " ms: " + what);
        }
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new AssertionError("interrupted", e);
        }
    }

    /** A map of settings: the base and the pairs key, value. */
    static Map<String, Object> settings(String brokers, Object... pairs) {
        Map<String, Object> out = new HashMap<>();
        out.put("bootstrap.servers", brokers);
        for (int i = 0; i < pairs.length; i += 2) {
            out.put((String) pairs[i], pairs[i + 1]);
        }
        return out;
    }

    static Admin admin() {
        return Admin.create(settings(BROKERS));
    }

    /** Defaults: acks=all, idempotent, retries until delivery.timeout. */
    static KafkaProducer<String, String> producer(Object... pairs) {
        return new KafkaProducer<>(settings(BROKERS, pairs), new StringSerializer(), new StringSerializer());
    }

    /** Reads from the start where there is no committed offset, and commits only when told to. The pairs win. */
    static KafkaConsumer<String, String> consumer(Object... pairs) {
        Map<String, Object> all = settings(BROKERS, "auto.offset.reset", "earliest", "enable.auto.commit", "false");
        all.putAll(settings(BROKERS, pairs));
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    /** Creates a topic of three replicas with the run's prefix, and returns its whole name. */
    static String topic(String name, int partitions) throws Exception {
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(PREFIX + name, partitions, (short) 3))).all().get(WAIT, TimeUnit.SECONDS);
        }
        return PREFIX + name;
    }

    static List<TopicPartition> partitions(String topic, int n) {
        return IntStream.range(0, n).mapToObj(p -> new TopicPartition(topic, p)).toList();
    }

    /** A record whose value tells it from all others; keys repeat every twenty. */
    static ProducerRecord<String, String> numbered(String topic, int i) {
        return new ProducerRecord<>(topic, String.format("key-%02d", i % 20), String.format("value-%08d with some text that compresses, compresses, compresses", i));
    }

    /** The number of a record that numbered has made. */
    static int number(ConsumerRecord<String, String> r) {
        return Integer.parseInt(r.value().substring(6, 14));
    }

    static List<ProducerRecord<String, String>> numbered(String topic, int from, int n) {
        return IntStream.range(from, from + n).mapToObj(i -> numbered(topic, i)).toList();
    }

    /** Sends all and returns what was acknowledged, in order. */
    static List<RecordMetadata> send(Collection<ProducerRecord<String, String>> records, Object... pairs) throws Exception {
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        List<RecordMetadata> done = new ArrayList<>();
        try (KafkaProducer<String, String> p = producer(pairs)) {
            records.forEach(r -> futures.add(p.send(r)));
            p.flush();
            for (Future<RecordMetadata> f : futures) {
                done.add(f.get(WAIT, TimeUnit.SECONDS));
            }
        }
        return done;
    }

    /** Reads count records of the partitions from their start, and fails when they do not come. */
    static List<ConsumerRecord<String, String>> read(Collection<TopicPartition> from, int count, Object... pairs) {
        try (KafkaConsumer<String, String> c = consumer(pairs)) {
            c.assign(from);
            c.seekToBeginning(from);
            return read(c, count);
        }
    }

    static List<ConsumerRecord<String, String>> read(KafkaConsumer<String, String> c, int count) {
        List<ConsumerRecord<String, String>> got = new ArrayList<>();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT);
        while (got.size() < count) {
            check(System.nanoTime() < end, got.size() + " of " + count + " records came");
            c.poll(java.time.Duration.ofMillis(200)).forEach(got::add);
        }
        return Collections.unmodifiableList(got);
    }
}
