package compat;

import static compat.Kit.admin;
import static compat.Kit.check;
import static compat.Kit.consumer;
import static compat.Kit.number;
import static compat.Kit.numbered;
import static compat.Kit.pause;
import static compat.Kit.same;
import static compat.Kit.until;

import java.time.Duration;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;

/** A producer and the members of a group at work on one topic, each in its own thread, with the defaults of the library but for the commits. */
final class Groups {
    private static final int PARTITIONS = 6;
    private static final int UNACKNOWLEDGED = 1000; // records under way at once

    private final String topic;
    private final String group;
    private final String assignor;
    private final BitSet acked = new BitSet(); // guarded by this, as all below
    private final Map<Integer, Integer> got = new HashMap<>(); // record: how often it was delivered
    private Throwable failure;
    private int sent;

    private Groups(String name, String assignor) throws Exception {
        this.topic = Kit.topic(name, PARTITIONS);
        this.group = topic + "-group";
        this.assignor = assignor;
    }

    /** One member, a second that takes part of the work and leaves again; everything is consumed; a third begins where the commits ended. */
    static void group(String name, String assignor) throws Exception {
        Groups g = new Groups(name, assignor);
        Producing p = g.new Producing();
        Member first = g.new Member(1);
        g.wait("the first member consumes", () -> first.delivered > 100);
        Member second = g.new Member(2);
        g.wait("both members consume", () -> second.delivered > 100 && !first.assigned.isEmpty() && !second.assigned.isEmpty());
        if (assignor.endsWith("CooperativeStickyAssignor")) {
            check(first.revoked < PARTITIONS, "a cooperative member gave all its partitions back");
            check(first.revoked > 0, "the first member gave nothing to the second");
        }
        g.describe(2);
        second.stop();
        g.wait("the first member has everything", () -> first.assigned.size() == PARTITIONS);
        p.stop();
        g.consumeAll();
        first.stop();
        g.describe(0);
        int total = g.sent;
        Kit.send(numbered(g.topic, total, 100));
        g.forget();
        Member third = g.new Member(3);
        g.wait("the group resumes", () -> g.got.size() >= 100);
        third.stop();
        for (int i = total; i < total + 100; i++) {
            check(g.got.containsKey(i), "record " + i + " did not come after the commits");
        }
        same(g.got.size(), 100, "records after the commits");
    }

    /** A producer and a group of two while brokers die and come back. Everything acknowledged is consumed, and is in the log once and in order. */
    static void kills(String name, int kills) throws Exception {
        Groups g = new Groups(name, "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
        Producing p = g.new Producing();
        Member first = g.new Member(1);
        Member second = g.new Member(2);
        for (int i = 0; i < kills; i++) {
            g.progress();
            Kit.kill();
        }
        g.progress();
        p.stop();
        g.consumeAll();
        first.stop();
        second.stop();
        g.verify(kills);
    }

    private void verify(int kills) {
        List<ConsumerRecord<String, String>> log = Kit.read(Kit.partitions(topic, PARTITIONS), sent);
        BitSet seen = new BitSet();
        Map<Integer, Integer> last = new HashMap<>();
        int twice = 0;
        int disorder = 0;
        for (ConsumerRecord<String, String> r : log) {
            twice += seen.get(number(r)) ? 1 : 0;
            seen.set(number(r));
            Integer before = last.put(r.partition(), number(r));
            disorder += before != null && before > number(r) ? 1 : 0;
        }
        BitSet missing = (BitSet) acked.clone();
        missing.andNot(seen);
        long redelivered = got.values().stream().filter(n -> n > 1).count();
        System.out.printf("%d kills: %d records acknowledged, %d missing in the log, %d there twice, %d out of order, %d delivered more than once%n",
            kills, acked.cardinality(), missing.cardinality(), twice, disorder, redelivered);
        same(missing.cardinality(), 0, "acknowledged records that are missing");
        same(twice, 0, "records that are in the log twice");
        same(disorder, 0, "records out of order");
    }

    private void describe(int members) throws Exception {
        try (Admin a = admin()) {
            until("the group has " + members + " members", () -> {
                ConsumerGroupDescription d = a.describeConsumerGroups(List.of(group)).all().get().get(group);
                return d.members().size() == members && d.members().stream().mapToInt(m -> m.assignment().topicPartitions().size()).sum() == (members > 0 ? PARTITIONS : 0);
            });
            check(a.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().size() == PARTITIONS, "not every partition has a committed offset");
        }
    }

    private synchronized void forget() {
        got.clear();
    }

    /** Waits as Kit.until, and fails at once when a thread has failed. */
    private void wait(String what, Kit.Condition condition) throws Exception {
        until(what, () -> {
            synchronized (this) {
                if (failure != null) {
                    throw new AssertionError(failure);
                }
                return condition.holds();
            }
        });
    }

    /** Waits until 200 more records have been acknowledged and consumed. */
    private void progress() throws Exception {
        int goalAcked;
        int goalGot;
        synchronized (this) {
            goalAcked = acked.cardinality() + 200;
            goalGot = got.size() + 200;
        }
        wait("200 more records", () -> acked.cardinality() >= goalAcked && got.size() >= goalGot);
    }

    private void consumeAll() throws Exception {
        same(acked.cardinality(), sent, "acknowledged records of those sent");
        wait("every acknowledged record is consumed", () -> got.size() >= sent);
    }

    private synchronized void fail(String who, Throwable e) {
        if (failure == null) {
            failure = new Exception(who + ": " + e, e);
        }
    }

    /** A thread that can be asked to end. */
    private abstract class Worker {
        volatile boolean stopped;
        private final Thread thread;

        Worker(String name) {
            thread = new Thread(() -> {
                try {
                    work();
                } catch (Throwable e) {
                    fail(name, e);
                }
            }, name);
        }

        final void start() {
            thread.start();
        }

        abstract void work() throws Exception;

        void stop() throws Exception {
            stopped = true;
            thread.join(1000L * Kit.WAIT);
            check(!thread.isAlive(), thread.getName() + " does not end");
            Groups.this.wait("", () -> true);
        }
    }

    /** Sends numbered records, twenty every 10 ms, without waiting for their acknowledgements. A send that fails is a failure. */
    private final class Producing extends Worker {
        Producing() {
            super("producer");
            start();
        }

        @Override
        void work() throws Exception {
            Semaphore room = new Semaphore(UNACKNOWLEDGED);
            try (KafkaProducer<String, String> p = Kit.producer()) {
                while (!stopped) {
                    for (int i = 0; i < 20; i++) {
                        int n = sent++; // read by others after this thread has ended
                        room.acquire();
                        p.send(numbered(topic, n), (at, e) -> {
                            room.release();
                            acknowledge(n, e);
                        });
                    }
                    pause(10);
                }
                p.flush();
            }
        }

        private void acknowledge(int n, Exception e) {
            if (e != null) {
                fail("send of record " + n, e);
                return;
            }
            synchronized (Groups.this) {
                acked.set(n);
            }
        }
    }

    /** Commits what it has delivered, after every poll and before it gives partitions away. */
    private final class Member extends Worker implements ConsumerRebalanceListener {
        private volatile Collection<TopicPartition> assigned = List.of();
        private volatile int delivered;
        private volatile int revoked; // partitions given back while at work
        private KafkaConsumer<String, String> consumer;

        Member(int number) {
            super("member " + number);
            start();
        }

        @Override
        void work() {
            KafkaConsumer<String, String> c = consumer("group.id", group, "partition.assignment.strategy", assignor, "session.timeout.ms", "10000", "heartbeat.interval.ms", "1000");
            consumer = c;
            try (c) {
                c.subscribe(List.of(topic), this);
                while (!stopped) {
                    for (ConsumerRecord<String, String> r : c.poll(Duration.ofMillis(100))) {
                        synchronized (Groups.this) {
                            got.merge(number(r), 1, Integer::sum);
                        }
                        delivered++;
                    }
                    commit();
                }
            }
        }

        /** A commit that loses against a rebalance is no failure: the records come again, to whoever has the partition then. */
        private void commit() {
            try {
                consumer.commitSync();
            } catch (CommitFailedException | RebalanceInProgressException e) {
                System.err.println("commit: " + e);
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> gone) {
            revoked += stopped ? 0 : gone.size();
            commit();
            assigned = consumer.assignment().stream().filter(p -> !gone.contains(p)).toList();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> more) {
            assigned = List.copyOf(consumer.assignment());
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> gone) {
            assigned = List.of();
        }
    }
}
