"""The capabilities of confluent-kafka for Python (librdkafka): client.py list, or client.py CAPABILITY."""
import os
import sys
import threading
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic,
                                   ResourceType)

BASE = {"bootstrap.servers": os.environ.get("BROKERS", "")}
PREFIX = os.environ.get("PREFIX", "")
WAIT = 60  # seconds for anything that is waited for


def wait_all(futures):
    return [f.result(WAIT) for f in futures.values()]


def topic(name, partitions=3, replicas=3):
    a = AdminClient(BASE)  # it must outlive its futures
    wait_all(a.create_topics([NewTopic(PREFIX + name, partitions, replicas)]))
    return PREFIX + name


def producer(**conf):
    return Producer({**BASE, "acks": "all", **{k.replace("_", "."): v for k, v in conf.items()}})


def write(to, values, **conf):
    """Writes the values round robin over three partitions, and fails when one was not acknowledged."""
    p, errors = producer(**conf), []
    for i, v in enumerate(values):
        p.produce(to, v, b"k%d" % i, i % 3, on_delivery=lambda err, _: errors.append(err))
    same(p.flush(WAIT), 0, "records in the queue")
    same([e for e in errors if e], [], "errors of produce")
    same(len(errors), len(values), "acknowledged records")


def consumer(group, **conf):
    own = {"group.id": PREFIX + group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    return Consumer({**BASE, **own, **{k.replace("_", "."): v for k, v in conf.items()}})


def reader(name, partitions=3, **conf):
    c = consumer("reader", **conf)
    c.assign([TopicPartition(name, p, OFFSET_BEGINNING) for p in range(partitions)])
    return c


def poll(c, seconds=0.5):
    records = c.consume(500, seconds)
    for r in records:
        if r.error():
            raise KafkaException(r.error())
    return records


def read(c, count):
    """Reads until count records have come, and fails when they do not."""
    got, end = [], time.monotonic() + WAIT
    while len(got) < count:
        check(time.monotonic() < end, f"{len(got)} of {count} records came")
        got.extend(poll(c))
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
    name = topic("produce-" + codec)
    values = [b"value-%d-" % i + b"x" * 200 for i in range(300)]
    write(name, values, compression_type=codec)
    same(sorted(r.value() for r in read(reader(name), 300)), sorted(values), "values")


def consume():
    name = topic("consume")
    write(name, [b"%d" % i for i in range(900)])
    got = read(reader(name), 900)
    for p in range(3):
        mine = [r for r in got if r.partition() == p]
        same([r.offset() for r in mine], list(range(300)), "offsets")
        same([int(r.value()) for r in mine], list(range(p, 900, 3)), "values")


def group():
    name, got = topic("group"), set()
    write(name, [b"a%d" % i for i in range(300)])

    def step(*members):
        for m in members:
            got.update(r.value() for r in poll(m, 0.1))

    def member():
        m = consumer("group", session_timeout_ms=10000)
        m.subscribe([name])
        return m

    first = member()
    until(lambda: len(first.assignment()) == 3 and got, "the first has all partitions", lambda: step(first))
    second = member()  # librdkafka joins when it subscribes
    both = lambda: first.assignment() and second.assignment() and len(first.assignment() + second.assignment()) == 3
    until(both, "both have partitions", lambda: step(first, second))
    write(name, [b"b%d" % i for i in range(300)])
    want = {b"%s%d" % (x, i) for x in (b"a", b"b") for i in range(300)}
    until(lambda: got >= want, "all records", lambda: step(first, second))
    for m in (first, second):
        m.commit(asynchronous=False)
    first.close(), second.close()
    write(name, [b"c%d" % i for i in range(30)])
    third = member()
    same({r.value() for r in read(third, 30)}, {b"c%d" % i for i in range(30)}, "records after the commit")
    third.close()


def admin():
    name, a = topic("admin", 2), AdminClient(BASE)
    partitions = lambda: len(a.list_topics(name, WAIT).topics[name].partitions)
    until(lambda: partitions() == 2, "two partitions")
    entry = ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET)
    wait_all(a.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])]))
    described = lambda: wait_all(a.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))[0]["retention.ms"].value
    until(lambda: described() == "123456", "the changed config")
    wait_all(a.create_partitions([NewPartitions(name, 5)]))
    until(lambda: partitions() == 5, "five partitions")
    check(name in a.list_topics(timeout=WAIT).topics, "the topic is not listed")
    wait_all(a.delete_topics([name]))
    until(lambda: name not in a.list_topics(timeout=WAIT).topics, "the topic is gone")


def seek_time():
    name, p, base = topic("seek-time", 1), producer(), int(time.time() * 1000) - 100_000
    for i in range(100):
        p.produce(name, b"%d" % i, partition=0, timestamp=base + i * 1000)
    same(p.flush(WAIT), 0, "records in the queue")
    c = reader(name, 1)
    found = c.offsets_for_times([TopicPartition(name, 0, base + 41_500)], WAIT)[0]
    same(found.offset, 42, "offset of the time")
    c.assign([found])
    same([int(r.value()) for r in read(c, 58)], list(range(42, 100)), "records from the time on")


def headers():
    name, p = topic("headers", 1), producer()
    sent = [("a", b"1"), ("b", b""), ("a", b"\x00\xff"), ("c", None)]
    p.produce(name, b"v", headers=sent)
    same(p.flush(WAIT), 0, "records in the queue")
    same(read(reader(name, 1), 1)[0].headers(), sent, "headers")


def nulls():
    name, p = topic("nulls", 1), producer()
    pairs = [(None, b"v"), (b"k", None), (b"", b"")]
    for k, v in pairs:
        p.produce(name, v, k)
        same(p.flush(WAIT), 0, "records in the queue")
    same([(r.key(), r.value()) for r in read(reader(name, 1), 3)], pairs, "keys and values")


def big():
    name = topic("big")
    values = [bytes([i]) * 990_000 for i in range(3)]
    write(name, values)
    same(sorted(r.value() for r in read(reader(name), 3)), values, "big values")
    # librdkafka wants fetch.max.bytes not below message.max.bytes, so the limit of a partition is the small one.
    small = reader(name, fetch_message_max_bytes=1024)
    same(sorted(r.value() for r in read(small, 3)), values, "big values with small limits")


def idempotent():
    name = topic("idempotent")
    write(name, [b"%d" % i for i in range(600)], enable_idempotence=True, linger_ms=1)
    got = read(reader(name), 600)
    for p in range(3):
        same([int(r.value()) for r in got if r.partition() == p], list(range(p, 600, 3)), "order")


def broker_kill():
    name, stop, acked, got, errors = topic("broker-kill"), threading.Event(), set(), set(), []

    def guard(work):
        try:
            work()
        except Exception as e:  # reported by the main thread
            errors.append(e)
            stop.set()

    def delivered(err, record):
        if err:
            errors.append(KafkaException(err))
        else:
            acked.add(int(record.value()))

    def producing():
        p, n = producer(enable_idempotence=True), 0
        while not stop.is_set():
            for i in range(n, n + 20):
                p.produce(name, b"%d" % i, partition=i % 3, on_delivery=delivered)
            n += 20
            same(p.flush(WAIT), 0, "records in the queue")
            stop.wait(0.02)

    def consuming():
        c, end = consumer("kill", session_timeout_ms=10000), None
        c.subscribe([name])
        while not (stop.is_set() and got >= acked):
            end = end or (stop.is_set() and time.monotonic() + 30)
            check(not end or time.monotonic() < end, f"{len(acked - got)} acknowledged records were not consumed")
            got.update(int(r.value()) for r in poll(c, 0.2))
        c.commit(asynchronous=False)
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


CAPABILITIES = {
    **{"produce-" + c: (lambda c=c: produce(c)) for c in ("none", "gzip", "snappy", "lz4", "zstd")},
    "consume": consume, "group": group, "admin": admin, "seek-time": seek_time, "headers": headers, "nulls": nulls, "big": big,
    "idempotent": idempotent, "broker-kill": broker_kill,
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
