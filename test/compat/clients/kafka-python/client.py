"""The capabilities of kafka-python: client.py list, or client.py CAPABILITY."""
import os
import sys
import threading
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaError

BROKERS = os.environ["BROKERS"].split(",") if "BROKERS" in os.environ else []
PREFIX = os.environ.get("PREFIX", "")
WAIT = 60  # seconds for anything that is waited for


def topic(name, partitions=3, replicas=3):
    admin = KafkaAdminClient(bootstrap_servers=BROKERS)
    admin.create_topics([NewTopic(PREFIX + name, partitions, replicas)])
    admin.wait_for_topics([PREFIX + name])
    admin.close()
    return PREFIX + name


def producer(**conf):
    return KafkaProducer(bootstrap_servers=BROKERS, acks="all", **conf)


def write(to, values, **conf):
    """Writes the values round robin over three partitions; returns what was acknowledged."""
    p = producer(**conf)
    futures = [p.send(to, v, key=b"k%d" % i, partition=i % 3) for i, v in enumerate(values)]
    p.flush()
    done = [f.get(WAIT) for f in futures]
    p.close()
    return done


def consumer(*topics, **conf):
    conf = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **conf}
    return KafkaConsumer(*topics, bootstrap_servers=BROKERS, **conf)


def reader(name, partitions=3, **conf):
    c = consumer(**conf)
    c.assign([TopicPartition(name, p) for p in range(partitions)])
    return c


def read(c, count):
    """Reads until count records have come, and fails when they do not."""
    got, end = [], time.monotonic() + WAIT
    while len(got) < count:
        check(time.monotonic() < end, f"{len(got)} of {count} records came")
        for records in c.poll(timeout_ms=500).values():
            got.extend(records)
    return got


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def same(got, want, what):
    check(got == want, f"{what}: got {str(got)[:100]}, want {str(want)[:100]}")


def until(condition, what, step=lambda: time.sleep(0.05)):
    end = time.monotonic() + WAIT
    while not condition():
        check(time.monotonic() < end, f"not within {WAIT} s: {what}")
        step()


def produce(codec):
    name = topic("produce-" + (codec or "none"))
    values = [b"value-%d-" % i + b"x" * 200 for i in range(300)]
    write(name, values, compression_type=codec)
    same(sorted(r.value for r in read(reader(name), 300)), sorted(values), "values")


def consume():
    name = topic("consume")
    write(name, [b"%d" % i for i in range(900)])
    got = read(reader(name), 900)
    for p in range(3):
        mine = [r for r in got if r.partition == p]
        same([r.offset for r in mine], list(range(300)), "offsets")
        same([int(r.value) for r in mine], list(range(p, 900, 3)), "values")


def group():
    name = topic("group")
    conf = {"group_id": PREFIX + "group", "session_timeout_ms": 10000}
    write(name, [b"a%d" % i for i in range(300)])
    got = set()

    def poll(*members):
        for m in members:
            got.update(r.value for records in m.poll(timeout_ms=100).values() for r in records)

    first, second = consumer(name, **conf), consumer(name, **conf)
    until(lambda: len(first.assignment()) == 3 and got, "the first has all partitions", lambda: poll(first))
    both = lambda: first.assignment() and second.assignment() and len(first.assignment() | second.assignment()) == 3
    until(both, "both have partitions", lambda: poll(first, second))
    write(name, [b"b%d" % i for i in range(300)])
    want = {b"%s%d" % (x, i) for x in (b"a", b"b") for i in range(300)}
    until(lambda: got >= want, "all records", lambda: poll(first, second))
    first.commit(), second.commit()
    first.close(), second.close()
    write(name, [b"c%d" % i for i in range(30)])
    third = consumer(name, **conf)
    same({r.value for r in read(third, 30)}, {b"c%d" % i for i in range(30)}, "records after the commit")
    third.close()


def admin():
    name = topic("admin", 2)
    a = KafkaAdminClient(bootstrap_servers=BROKERS)
    same(len(a.describe_topics([name])[0]["partitions"]), 2, "partitions")
    resource = ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "123456"})
    a.alter_configs([resource])
    described = lambda: str(a.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)]))
    until(lambda: "123456" in described(), "the changed config")
    a.create_partitions({name: 5})
    until(lambda: len(a.describe_topics([name])[0]["partitions"]) == 5, "five partitions")
    check(name in a.list_topics(), "the topic is not listed")
    a.delete_topics([name])
    until(lambda: name not in a.list_topics(), "the topic is gone")


def seek_time():
    name, p, base = topic("seek-time", 1), producer(), int(time.time() * 1000) - 100_000
    for i in range(100):
        p.send(name, b"%d" % i, partition=0, timestamp_ms=base + i * 1000)
    p.flush()
    c, tp = reader(name, 1), TopicPartition(name, 0)
    found = c.offsets_for_times({tp: base + 41_500})[tp]
    same((found.offset, found.timestamp), (42, base + 42_000), "offset of the time")
    c.seek(tp, found.offset)
    same([int(r.value) for r in read(c, 58)], list(range(42, 100)), "records from the time on")


def headers():
    name, p = topic("headers", 1), producer()
    sent = [("a", b"1"), ("b", b""), ("a", b"\x00\xff")]  # the client refuses to send a header without a value
    p.send(name, b"v", headers=sent).get(WAIT)
    same([tuple(h) for h in read(reader(name, 1), 1)[0].headers], sent, "headers")


def nulls():
    name, p = topic("nulls", 1), producer()
    pairs = [(None, b"v"), (b"k", None), (b"", b"")]
    for k, v in pairs:
        p.send(name, v, key=k).get(WAIT)
    same([(r.key, r.value) for r in read(reader(name, 1), 3)], pairs, "keys and values")


def big():
    name = topic("big")
    values = [bytes([i]) * 1_000_000 for i in range(3)]
    write(name, values)
    same(sorted(r.value for r in read(reader(name), 3)), values, "big values")
    small = reader(name, max_partition_fetch_bytes=1024, fetch_max_bytes=1024)
    same(sorted(r.value for r in read(small, 3)), values, "big values with small limits")


def idempotent():
    name = topic("idempotent")
    write(name, [b"%d" % i for i in range(600)], enable_idempotence=True, linger_ms=1)
    got = read(reader(name), 600)
    for p in range(3):
        same([int(r.value) for r in got if r.partition == p], list(range(p, 600, 3)), "order")


def broker_kill():
    name, stop, acked, got, errors = topic("broker-kill"), threading.Event(), set(), set(), []

    def guard(work):
        try:
            work()
        except Exception as e:  # reported by the main thread
            errors.append(e)
            stop.set()

    def producing():
        p, n = producer(enable_idempotence=True), 0
        while not stop.is_set():
            batch = [(n + i, p.send(name, b"%d" % (n + i), partition=i % 3)) for i in range(20)]
            for i, f in batch:
                f.get(WAIT)
                acked.add(i)
            n += 20
            stop.wait(0.02)
        p.close()

    def consuming():
        c = consumer(name, group_id=PREFIX + "kill", session_timeout_ms=10000)
        end = None
        while not (stop.is_set() and got >= acked):
            end = end or (stop.is_set() and time.monotonic() + 30)
            check(not end or time.monotonic() < end, f"{len(acked - got)} acknowledged records were not consumed")
            for records in c.poll(timeout_ms=200).values():
                got.update(int(r.value) for r in records)
        c.commit()
        c.close()

    make, take = (threading.Thread(target=guard, args=(w,), daemon=True) for w in (producing, consuming))
    make.start(), take.start()
    for _ in range(2):
        goal = len(acked) + 100
        until(lambda: len(acked) > goal and got or errors, "progress")
        print("KILL", flush=True)
        same(sys.stdin.readline().strip(), "KILLED", "answer of the driver")
    goal = len(acked) + 100
    until(lambda: len(acked) > goal or errors, "progress after the kills")
    stop.set()
    make.join(WAIT), take.join(WAIT)
    if errors:
        raise errors[0]
    check(not make.is_alive() and not take.is_alive(), "a thread did not end")


def old_version():
    """A client that is told an old version: 0.11 works, 0.10 has message sets that Apache Kafka 4 has dropped, and the client says that nothing was sent."""
    name, tp = topic("old-version", 1), TopicPartition(PREFIX + "old-version", 0)
    p = producer(api_version=(0, 11))
    same(p.send(name, b"new", partition=0).get(WAIT).offset, 0, "offset")
    p.close()
    old = producer(api_version=(0, 10), request_timeout_ms=3000, delivery_timeout_ms=6000, linger_ms=0)
    try:
        old.send(name, b"old", partition=0).get(20)
        check(False, "a record of the format of 0.10 was taken")
    except KafkaError:
        pass
    c = consumer(api_version=(0, 11))
    c.assign([tp])
    same([r.value for r in read(c, 1)], [b"new"], "records")
    same(c.end_offsets([tp])[tp], 1, "end of the log")


CAPABILITIES = {
    **{"produce-" + c: (lambda c=c: produce(None if c == "none" else c)) for c in ("none", "gzip", "snappy", "lz4", "zstd")},
    "consume": consume, "group": group, "admin": admin, "seek-time": seek_time, "headers": headers, "nulls": nulls, "big": big,
    "idempotent": idempotent, "broker-kill": broker_kill, "old-version": old_version,
}

if __name__ == "__main__":
    if sys.argv[1] == "list":
        print("\n".join(CAPABILITIES))
    else:
        try:
            CAPABILITIES[sys.argv[1]]()
        except Exception as e:
            print(f"{type(e).__name__}: {e}".replace("\n", " "), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)  # without the clients' shutdown in the background
