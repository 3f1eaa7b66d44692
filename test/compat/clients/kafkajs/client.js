// The capabilities of kafkajs: client.js list, or client.js CAPABILITY.
import readline from 'node:readline'
import zlib from 'node:zlib'
import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'
import lz4 from 'lz4js'

const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = kafkajs
CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => Buffer.from(lz4.compress(encoder.buffer)), decompress: async buffer => Buffer.from(lz4.decompress(buffer)),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => zlib.zstdCompressSync(encoder.buffer), decompress: async buffer => zlib.zstdDecompressSync(buffer),
})

const prefix = process.env.PREFIX ?? ''
const wait = 60_000 // milliseconds for anything that is waited for
const kafka = process.env.BROKERS && new Kafka({ brokers: process.env.BROKERS.split(','), logLevel: logLevel.NOTHING, retry: { retries: 20, maxRetryTime: 1000 } })
let groups = 0

const check = (ok, message) => { if (!ok) throw new Error(message) }
const same = (got, want, what) => {
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)]
  check(a === b, `${what}: got ${a.slice(0, 100)}, want ${b.slice(0, 100)}`)
}
const range = (n, f = i => i) => Array.from({ length: n }, (_, i) => f(i))
const pause = ms => new Promise(resolve => setTimeout(resolve, ms))
async function until(condition, what) {
  const end = Date.now() + wait
  while (!await condition()) {
    check(Date.now() < end, `not within ${wait} ms: ${what}`)
    await pause(50)
  }
}

async function withAdmin(work) {
  const admin = kafka.admin()
  await admin.connect()
  try { return await work(admin) } finally { await admin.disconnect() }
}
async function topic(name, numPartitions = 3) {
  await withAdmin(a => a.createTopics({ topics: [{ topic: prefix + name, numPartitions, replicationFactor: 3 }] }))
  return prefix + name
}
async function write(topic, messages, { compression, ...conf } = {}) {
  const p = kafka.producer(conf)
  await p.connect()
  await p.send({ topic, acks: -1, compression, messages })
  await p.disconnect()
}
const numbered = (values) => values.map((value, i) => ({ key: `k${i}`, value, partition: i % 3 }))

// member consumes the topic in a group; what it got and its partitions are in the result.
async function member(topic, group = `reader-${groups++}`, conf = {}) {
  const m = { got: [], partitions: [], crash: null }
  m.client = kafka.consumer({ groupId: prefix + group, sessionTimeout: 10_000, heartbeatInterval: 500, ...conf })
  m.client.on(m.client.events.GROUP_JOIN, e => { m.partitions = e.payload.memberAssignment[topic] ?? [] })
  m.client.on(m.client.events.CRASH, e => { if (!e.payload.restart) m.crash = e.payload.error })
  await m.client.connect()
  await m.client.subscribe({ topic, fromBeginning: true })
  await m.client.run({ eachMessage: async ({ partition, message }) => { m.got.push({ partition, ...message }) } })
  return m
}
async function read(topic, count, conf) {
  const m = await member(topic, undefined, conf)
  await until(() => m.got.length >= count, `${count} records`)
  await m.client.disconnect()
  same(m.got.length, count, 'records')
  return m.got
}
const values = records => records.map(r => r.value.toString())
const numbers = (records, partition) => records.filter(r => r.partition === partition).map(r => Number(r.value))

async function produce(compression) {
  const name = await topic(`produce-${compression}`)
  const want = range(300, i => `value-${i}-${'x'.repeat(200)}`)
  await write(name, numbered(want), { compression })
  same(values(await read(name, 300)).sort(), want.sort(), 'values')
}

async function ordered(name, conf) {
  await write(await topic(name), numbered(range(600, String)), conf)
  const got = await read(prefix + name, 600)
  for (const p of range(3)) {
    same(got.filter(r => r.partition === p).map(r => Number(r.offset)), range(200), 'offsets')
    same(numbers(got, p), range(200, i => 3 * i + p), 'order')
  }
}

async function group() {
  const name = await topic('group')
  const send = x => write(name, numbered(range(300, i => x + i)))
  await send('a')
  const first = await member(name, 'group')
  await until(() => first.partitions.length === 3 && first.got.length > 0, 'the first has all partitions')
  const second = await member(name, 'group')
  await until(() => first.partitions.length && second.partitions.length && first.partitions.length + second.partitions.length === 3, 'both have partitions')
  await send('b')
  const want = ['a', 'b'].flatMap(x => range(300, i => x + i)).sort()
  await until(() => new Set(values([...first.got, ...second.got])).size === want.length, 'all records')
  same([...new Set(values([...first.got, ...second.got]))].sort(), want, 'values')
  await first.client.disconnect() // commits
  await second.client.disconnect()
  await send('c')
  const third = await member(name, 'group')
  await until(() => third.got.length >= 300, 'the records after the commit')
  same(values(third.got).sort(), range(300, i => 'c' + i).sort(), 'records after the commit')
  await third.client.disconnect()
}

async function admin() {
  const name = await topic('admin', 2)
  const resource = { type: ConfigResourceTypes.TOPIC, name }
  await withAdmin(async a => {
    const partitions = async () => (await a.fetchTopicMetadata({ topics: [name] })).topics[0].partitions.length
    await until(async () => await partitions() === 2, 'two partitions')
    await a.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '123456' }] }] })
    const described = async () => (await a.describeConfigs({ resources: [resource] })).resources[0].configEntries.find(e => e.configName === 'retention.ms').configValue
    await until(async () => await described() === '123456', 'the changed config')
    await a.createPartitions({ topicPartitions: [{ topic: name, count: 5 }] })
    await until(async () => await partitions() === 5, 'five partitions')
    check((await a.listTopics()).includes(name), 'the topic is not listed')
    await a.deleteTopics({ topics: [name] })
    await until(async () => !(await a.listTopics()).includes(name), 'the topic is gone')
  })
}

async function seekTime() {
  const [name, base] = [await topic('seek-time', 1), Date.now() - 100_000]
  await write(name, range(100, i => ({ value: `${i}`, timestamp: `${base + i * 1000}` })))
  const [found] = await withAdmin(a => a.fetchTopicOffsetsByTimestamp(name, base + 41_500))
  same(found.offset, '42', 'offset of the time')
  const m = await member(name, 'seek-time')
  m.client.seek({ topic: name, partition: 0, offset: found.offset })
  await until(() => m.got.length >= 58, 'the records from the time on')
  await m.client.disconnect()
  same(numbers(m.got, 0).slice(-58), range(58, i => 42 + i), 'records from the time on')
}

async function headers() {
  const name = await topic('headers', 1)
  await write(name, [{ value: 'v', headers: { a: ['1', '2'], b: '' } }])
  const [record] = await read(name, 1)
  same([record.headers.a.map(String), String(record.headers.b)], [['1', '2'], ''], 'headers')
}

async function nulls() {
  const name = await topic('nulls', 1)
  await write(name, [{ key: null, value: 'v' }, { key: 'k', value: null }, { key: '', value: '' }])
  const text = b => b === null ? null : b.toString()
  same((await read(name, 3)).map(r => [text(r.key), text(r.value)]), [[null, 'v'], ['k', null], ['', '']], 'keys and values')
}

async function big() {
  const name = await topic('big')
  const want = range(3, i => String(i).repeat(1_000_000))
  await write(name, numbered(want))
  for (const conf of [{}, { maxBytesPerPartition: 1024, maxBytes: 1024 }]) {
    check(JSON.stringify(values(await read(name, 3, conf)).sort()) === JSON.stringify(want), 'the big values differ')
  }
}

// deliver sends the numbers until each has been acknowledged. A send of kafkajs can succeed without one of the partitions: it keeps answers by broker, and where
// one partition failed it sends nothing to a broker that has answered for another, although that broker may lead both now. Its result names what was written.
async function deliver(producer, topic, numbers) {
  for (let left = numbers; left.length > 0;) {
    const results = await producer.send({ topic, acks: -1, messages: left.map(i => ({ value: `${i}`, partition: i % 3 })) })
    const written = new Set(results.filter(r => r.errorCode === 0).map(r => r.partition))
    left = left.filter(i => !written.has(i % 3))
  }
}

async function brokerKill() {
  const name = await topic('broker-kill')
  const answers = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
  const acked = new Set()
  let [stop, failure] = [false, null]
  const p = kafka.producer()
  await p.connect()
  const producing = (async () => {
    for (let n = 0; !stop; n += 20) {
      await deliver(p, name, range(20, i => n + i))
      range(20, i => acked.add(n + i))
      await pause(20)
    }
  })().catch(e => { failure = e })
  const m = await member(name, 'kill')
  const progress = async () => {
    const goal = acked.size + 100
    await until(() => failure || m.crash || (acked.size > goal && m.got.length > 0), 'progress')
    if (failure || m.crash) throw failure ?? m.crash
  }
  for (let kills = 0; kills < 2; kills++) {
    await progress()
    console.log('KILL')
    same((await answers.next()).value, 'KILLED', 'answer of the driver')
  }
  await progress()
  stop = true
  await producing
  const missing = () => { const got = new Set(m.got.map(r => Number(r.value))); return [...acked].filter(i => !got.has(i)) }
  await until(() => m.crash || missing().length === 0, 'every acknowledged record is consumed')
  if (failure || m.crash) throw failure ?? m.crash
}

const codecs = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD }
const capabilities = {
  ...Object.fromEntries(Object.entries(codecs).map(([name, codec]) => [`produce-${name}`, () => produce(codec)])),
  consume: () => ordered('consume'), group, admin, 'seek-time': seekTime, headers, nulls, big,
  idempotent: () => ordered('idempotent', { idempotent: true, maxInFlightRequests: 1 }), 'broker-kill': brokerKill,
}

if (process.argv[2] === 'list') {
  console.log(Object.keys(capabilities).join('\n'))
} else {
  try {
    await capabilities[process.argv[2]]()
    process.exit(0)
  } catch (e) {
    console.error(`${e.name}: ${e.message}`.replaceAll('\n', ' '))
    process.exit(1)
  }
}
