package compat;

import static compat.Kit.admin;
import static compat.Kit.check;
import static compat.Kit.consumer;
import static compat.Kit.fails;
import static compat.Kit.numbered;
import static compat.Kit.same;
import static compat.Kit.until;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.UnknownMemberIdException;

/** What members of a group can do besides sharing the work: keep their place over a restart, subscribe to a pattern, and be administered. */
final class Members {
    private Members() {}

    /** Static members come back without a rebalance, whichever of them; one that has been replaced is fenced; an administrator can remove one. */
    static void statics() throws Exception {
        String topic = Kit.topic("group-static", 4);
        String group = topic + "-group";
        List<KafkaConsumer<String, String>> members = new ArrayList<>();
        for (String instance : List.of("a", "b")) {
            members.add(member(group, instance, topic));
        }
        until("both have two partitions", () -> poll(members) && members.stream().allMatch(m -> m.assignment().size() == 2));
        int generation = members.get(0).groupMetadata().generationId();
        for (int i : List.of(1, 0)) {
            String instance = members.get(i).groupMetadata().groupInstanceId().orElseThrow();
            Set<TopicPartition> before = members.get(i).assignment();
            members.get(i).close();
            members.set(i, member(group, instance, topic));
            until(instance + " has its partitions again", () -> poll(members) && members.get(i).assignment().equals(before));
            members.forEach(m -> same(m.groupMetadata().generationId(), generation, "generation after " + instance + " has come back"));
        }
        KafkaConsumer<String, String> replaced = members.set(1, member(group, "b", topic));
        until("the new b has two partitions", () -> poll(members) && members.get(1).assignment().size() == 2);
        until("the old b is fenced", () -> {
            try {
                replaced.poll(Duration.ofMillis(50));
                return false;
            } catch (FencedInstanceIdException e) {
                return true;
            }
        });
        members.remove(1).close();
        try (Admin a = admin()) {
            a.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("b")))).all().get();
            same(a.describeConsumerGroups(List.of(group)).all().get().get(group).members().size(), 1, "members after the removal");
        }
        until("a has all partitions", () -> poll(members) && members.get(0).assignment().size() == 4);
    }

    private static KafkaConsumer<String, String> member(String group, String instance, String topic) {
        KafkaConsumer<String, String> c = consumer("group.id", group, "group.instance.id", instance, "session.timeout.ms", "60000", "heartbeat.interval.ms", "500");
        c.subscribe(List.of(topic));
        return c;
    }

    private static boolean poll(List<KafkaConsumer<String, String>> members) {
        members.forEach(m -> m.poll(Duration.ofMillis(100)));
        return true;
    }

    /**
     * A member that has subscribed to a pattern gets the topics that come later too, and goes on when one is deleted. It commits only while nothing is deleted:
     * the library repeats the commit of a place in a topic that is gone.
     */
    static void pattern() throws Exception {
        String first = Kit.topic("pattern-1", 2);
        Kit.send(numbered(first, 0, 50));
        try (KafkaConsumer<String, String> c = consumer("group.id", first + "-group", "metadata.max.age.ms", "500"); Admin a = admin()) {
            c.subscribe(Pattern.compile(Pattern.quote(Kit.PREFIX + "pattern-") + "[0-9]"));
            Set<Integer> got = new HashSet<>(); // a rebalance repeats what is not committed
            until("the first topic comes", () -> take(c, got) == 50);
            c.commitSync();
            String second = Kit.topic("pattern-2", 3);
            Kit.topic("pattern-other", 1);
            Kit.send(numbered(second, 50, 50));
            until("the second topic comes", () -> take(c, got) == 100);
            c.commitSync();
            same(c.assignment().size(), 5, "partitions");
            a.deleteTopics(List.of(first)).all().get();
            until("the partitions of the deleted topic are gone", () -> take(c, got) == 100 && c.assignment().equals(Set.copyOf(Kit.partitions(second, 3))));
            Kit.send(numbered(second, 100, 50));
            until("more of the second topic comes", () -> take(c, got) == 150);
        }
    }

    /** Polls once, and returns how many different records have come so far. */
    private static int take(KafkaConsumer<String, String> c, Set<Integer> got) {
        c.poll(Duration.ofMillis(50)).forEach(r -> got.add(Kit.number(r)));
        return got.size();
    }

    /** An administrator changes, deletes and resets the offsets of an idle group, and may not touch those of a group at work. */
    static void administer() throws Exception {
        String topic = Kit.topic("group-admin", 2);
        String group = topic + "-group";
        List<TopicPartition> p = Kit.partitions(topic, 2);
        Kit.send(numbered(topic, 0, 40));
        try (Admin a = admin()) {
            try (KafkaConsumer<String, String> c = consumer("group.id", group)) {
                c.subscribe(List.of(topic));
                Kit.read(c, 40);
                c.commitSync();
                check(a.listConsumerGroups().all().get().stream().anyMatch(g -> g.groupId().equals(group)), "the group is not listed");
                fails(a.deleteConsumerGroups(List.of(group)).all(), GroupNotEmptyException.class);
                fails(a.alterConsumerGroupOffsets(group, Map.of(p.get(0), new OffsetAndMetadata(1))).all(), UnknownMemberIdException.class);
            }
            until("the group is empty", () -> a.describeConsumerGroups(List.of(group)).all().get().get(group).members().isEmpty());
            a.alterConsumerGroupOffsets(group, Map.of(p.get(0), new OffsetAndMetadata(3, "by hand"))).all().get();
            a.deleteConsumerGroupOffsets(group, Set.of(p.get(1))).all().get();
            Map<TopicPartition, OffsetAndMetadata> left = a.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
            same(left.get(p.get(0)), new OffsetAndMetadata(3, "by hand"), "the offset that was set");
            same(left.get(p.get(1)), null, "the offset that was deleted");
            a.deleteConsumerGroups(List.of(group)).all().get();
            until("the group is gone", () -> a.listConsumerGroups().all().get().stream().noneMatch(g -> g.groupId().equals(group)));
            fails(a.deleteConsumerGroups(List.of(group)).all(), GroupIdNotFoundException.class);
            same(a.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get(), Map.of(), "offsets of the deleted group");
        }
    }
}
