package compat;

import static compat.Kit.check;
import static compat.Kit.same;
import static compat.Kit.until;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.config.ConfigResource;

/** Kafka Connect in distributed mode: a file is read into a topic and written from there to another file. Workers are processes of their own. */
public final class Connect {
    private static final int LIMIT = 150; // seconds: a worker takes ten to start, and more on a busy machine
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    private final String name;
    private final Path in;
    private final Path out;
    private int written;

    private Connect(String capability) throws IOException {
        name = Kit.PREFIX + capability;
        in = Files.createTempFile("in", ".txt");
        out = Path.of(in + ".out");
    }

    public static void main(String[] args) {
        Map<String, Kit.Job> jobs = new LinkedHashMap<>();
        jobs.put("connect-file", new Kit.Job(LIMIT, "", Connect::lines));
        jobs.put("connect-workers", new Kit.Job(LIMIT, "", Connect::workers));
        jobs.put("connect-kill", new Kit.Job(LIMIT, "", Connect::kills));
        jobs.put("connect-policy", new Kit.Job(LIMIT, "", Connect::policy));
        Kit.main(args, jobs);
    }

    /** Lines in are lines out, in their order, also when the worker is restarted between them. Then the sink's offsets are taken back, and all come again. */
    private static void lines() throws Exception {
        Connect c = new Connect("connect-file");
        Worker w = c.new Worker();
        c.append(500);
        c.connectors(w);
        c.arrived(w);
        c.topics();
        w.process.stop();
        c.append(500);
        w = c.new Worker();
        c.arrived(w);
        c.append(500);
        c.arrived(w);
        c.again(w);
        w.process.stop();
    }

    /** Two workers share the connectors; one is killed, and the other does all the work. Nothing is lost; lines may come twice then. */
    private static void workers() throws Exception {
        Connect c = new Connect("connect-workers");
        Worker a = c.new Worker();
        c.append(500);
        c.connectors(a);
        c.arrived(a);
        Worker b = c.new Worker();
        b.until("both workers have connectors", () -> {
            String all = b.get("/connectors/source/status") + b.get("/connectors/sink/status");
            return all.contains(a.id()) && all.contains(b.id());
        });
        a.process.kill();
        c.append(500);
        b.until("every line arrives", () -> new HashSet<>(Files.readAllLines(c.out)).containsAll(Files.readAllLines(c.in)));
        check(!b.get("/connectors/sink/status").contains(a.id()), "a task is still at the worker that was killed");
        b.process.stop();
    }

    /** The connectors go on while brokers die and come back. Nothing is lost. */
    private static void kills() throws Exception {
        Connect c = new Connect("connect-kill");
        Worker w = c.new Worker();
        c.append(200);
        c.connectors(w);
        c.arrived(w);
        AtomicBoolean stop = new AtomicBoolean();
        Thread feeder = new Thread(() -> {
            while (!stop.get()) {
                c.append(20);
                Kit.pause(10);
            }
        });
        feeder.start();
        for (int i = 0; i < 3; i++) {
            int goal = Files.readAllLines(c.out).size() + 500;
            w.until("500 more lines arrive", () -> Files.readAllLines(c.out).size() >= goal);
            if (i < 2) {
                Kit.kill();
            }
        }
        stop.set(true);
        feeder.join();
        w.until("every line arrives", () -> new HashSet<>(Files.readAllLines(c.out)).containsAll(Files.readAllLines(c.in)));
        for (String connector : List.of("source", "sink")) {
            String status = w.get("/connectors/" + connector + "/status");
            check(!status.contains("FAILED"), "status: " + status);
        }
        System.out.println(c.written + " lines in, " + Files.readAllLines(c.out).size() + " lines out");
        w.process.stop();
    }

    /** Connect refuses an internal topic that is not compacted. */
    private static void policy() throws Exception {
        Connect c = new Connect("connect-policy");
        try (Admin a = Kit.admin()) {
            a.createTopics(List.of(new NewTopic(c.name + "-offsets", 1, (short) 3).configs(Map.of("cleanup.policy", "delete")))).all().get();
        }
        Child worker = c.new Worker(false).process;
        // The process itself waits half a minute more for its own thread.
        until("the worker gives up", () -> worker.lines().stream().anyMatch(l -> l.contains("Uncaught exception in herder work thread, exiting")));
        Pattern refusal = Pattern.compile("Topic '" + c.name + "-offsets' .*required to have 'cleanup.policy=compact'.*currently has 'cleanup.policy=delete'");
        until("the worker says why", () -> worker.lines().stream().anyMatch(l -> refusal.matcher(l).find()));
        worker.kill();
    }

    /** Appends n lines to the file that is read. */
    private void append(int n) {
        try {
            Files.write(in, IntStream.range(written, written + n).mapToObj(i -> "line " + i).toList(), StandardOpenOption.APPEND);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        written += n;
    }

    private void arrived(Worker w) throws Exception {
        w.until(written + " lines arrive", () -> Files.exists(out) && Files.readAllLines(out).size() >= written);
        same(Files.readAllLines(out), Files.readAllLines(in), "lines");
    }

    private void connectors(Worker w) throws Exception {
        w.put("/connectors/source/config", "{'connector.class': 'FileStreamSource', 'tasks.max': '1', 'file': '" + in + "', 'topic': '" + name + "',"
            + "'topic.creation.default.partitions': '1', 'topic.creation.default.replication.factor': '-1', 'topic.creation.default.retention.ms': '123456'}");
        // A consumer that asks for a topic creates it, with the defaults: the source comes first.
        try (Admin a = Kit.admin()) {
            w.until("the source has created its topic", () -> a.listTopics().names().get().contains(name));
        }
        w.put("/connectors/sink/config", "{'connector.class': 'FileStreamSink', 'tasks.max': '1', 'file': '" + out + "', 'topics': '" + name + "'}");
    }

    /** The topics that Connect has created are as it wanted them. */
    private void topics() throws Exception {
        Map<String, Integer> partitions = Map.of(name + "-configs", 1, name + "-offsets", 5, name + "-status", 3, name, 1);
        try (Admin a = Kit.admin()) {
            a.describeTopics(partitions.keySet()).allTopicNames().get().forEach((topic, d) -> {
                same(d.partitions().size(), partitions.get(topic), "partitions of " + topic);
                d.partitions().forEach(p -> same(p.replicas().size(), 3, "replicas of " + topic));
            });
            a.describeConfigs(partitions.keySet().stream().map(t -> new ConfigResource(ConfigResource.Type.TOPIC, t)).toList()).all().get().forEach((topic, config) -> {
                boolean data = topic.name().equals(name);
                same(config.get("cleanup.policy").value(), data ? "delete" : "compact", "cleanup.policy of " + topic.name());
                same(config.get("retention.ms").value(), data ? "123456" : "604800000", "retention.ms of " + topic.name());
            });
        }
    }

    /** Stops the sink, takes its offsets back, and lets it go on: it writes everything a second time. */
    private void again(Worker w) throws Exception {
        w.until("the source's offsets are known", () -> w.get("/connectors/source/offsets").contains("\"position\":" + Files.size(in)));
        w.until("the sink's offsets are known", () -> w.get("/connectors/sink/offsets").contains("\"kafka_offset\":" + written));
        w.put("/connectors/sink/stop", "");
        w.until("the sink stands", () -> w.get("/connectors/sink/status").matches(".*\"state\":\"STOPPED\".*\"tasks\":\\[\\].*"));
        w.until("the offsets are taken back", () -> w.send("DELETE", "/connectors/sink/offsets", "").statusCode() == 200);
        w.put("/connectors/sink/resume", "");
        w.until("all lines arrive again", () -> Files.readAllLines(out).size() >= 2 * written);
        List<String> once = Files.readAllLines(in);
        same(Files.readAllLines(out), Stream.concat(once.stream(), once.stream()).toList(), "lines");
    }

    /** A worker and its REST interface. */
    private final class Worker {
        private final Child process;
        private final int port;

        Worker() throws Exception {
            this(true);
        }

        /** Starts a worker, and waits until it takes requests where that is wanted. */
        Worker(boolean ready) throws Exception {
            try (ServerSocket s = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                port = s.getLocalPort();
            }
            Map<String, Object> p = new HashMap<>(Kit.settings(Kit.BROKERS, "group.id", name, "listeners", "http://127.0.0.1:" + port,
                "key.converter", "org.apache.kafka.connect.storage.StringConverter", "value.converter", "org.apache.kafka.connect.storage.StringConverter",
                "config.storage.topic", name + "-configs", "offset.storage.topic", name + "-offsets", "status.storage.topic", name + "-status",
                "offset.storage.partitions", 5, "status.storage.partitions", 3, "offset.flush.interval.ms", 1000,
                "scheduled.rebalance.max.delay.ms", 2000, "consumer.auto.offset.reset", "earliest"));
            process = new Child("worker", "org.apache.kafka.connect.cli.ConnectDistributed", p);
            if (ready) {
                until("the worker takes requests", () -> get("/connectors").startsWith("["));
            }
        }

        /** What Connect calls the worker. */
        String id() {
            return "127.0.0.1:" + port;
        }

        void until(String what, Kit.Condition condition) throws Exception {
            Kit.until(what, () -> {
                process.running();
                return condition.holds();
            });
        }

        HttpResponse<String> send(String method, String path, String body) throws Exception {
            HttpRequest.Builder r = HttpRequest.newBuilder(URI.create("http://" + id() + path)).header("Content-Type", "application/json");
            return HTTP.send(r.method(method, HttpRequest.BodyPublishers.ofString(body.replace('\'', '"'))).build(), HttpResponse.BodyHandlers.ofString());
        }

        /** The answer's body; nothing while the worker does not listen. */
        String get(String path) throws Exception {
            try {
                return send("GET", path, "").body();
            } catch (IOException e) {
                return "";
            }
        }

        /** Repeats the request while the worker is in a rebalance. */
        void put(String path, String body) throws Exception {
            until("PUT " + path, () -> {
                HttpResponse<String> answer = send("PUT", path, body);
                check(answer.statusCode() < 300 || answer.statusCode() == 409 || answer.statusCode() == 503, path + ": " + answer.statusCode() + " " + answer.body());
                return answer.statusCode() < 300;
            });
        }
    }
}
