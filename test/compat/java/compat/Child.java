package compat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** A Java program of Apache Kafka's that runs beside the row, with a file of settings. It never outlives the row. */
final class Child {
    private final String name;
    private final Path log;
    private final Process process;

    /** Starts the main class with the path of the settings as its argument. */
    Child(String name, String main, Map<String, ?> settings) throws IOException {
        this.name = name;
        Path file = Files.createTempFile(name, ".properties");
        Files.write(file, new TreeMap<>(settings).entrySet().stream().map(e -> e.getKey() + "=" + e.getValue()).toList());
        log = Files.createTempFile(name, ".log");
        process = new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true",
            "-Djava.io.tmpdir=" + System.getProperty("java.io.tmpdir"), "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
            "-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS", "-cp", System.getProperty("java.class.path"), main, file.toString())
            .redirectErrorStream(true).redirectOutput(log.toFile()).start();
        Kit.atEnd(process::destroyForcibly);
    }

    boolean alive() {
        return process.isAlive();
    }

    List<String> lines() throws IOException {
        return Files.readAllLines(log);
    }

    /** Fails with what the program has said last when it has ended. */
    void running() throws IOException {
        if (!alive()) {
            List<String> lines = lines();
            lines.subList(Math.max(0, lines.size() - 60), lines.size()).forEach(System.err::println);
            throw new AssertionError(name + " ended with status " + process.exitValue());
        }
    }

    /** Asks it to end, in the orderly way. */
    void stop() throws Exception {
        process.destroy();
        Kit.until(name + " ends after SIGTERM", () -> !alive());
    }

    void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }
}
