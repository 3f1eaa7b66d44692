// The capabilities of @platformatic/kafka: client.js list, or client.js CAPABILITY.
import readline from 'node:readline'
import { Admin, ConfigResourceTypes, Consumer, IncrementalAlterConfigOperationTypes, Producer } from '@platformatic/kafka'

const prefix = process.env.PREFIX ?? ''
const wait = 60_000 // milliseconds for anything that is waited for
const base = { clientId: 'compat', bootstrapBrokers: process.env.BROKERS?.split(',') ?? [], retries: 30, retryDelay: 500 }
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
  const admin = new Admin(base)
  try { return await work(admin) } finally { await admin.close() }
}
async function topic(name, partitions = 3) {
  await withAdmin(a => a.createTopics({ topics: [prefix + name], partitions, replicas: 3 }))
  return prefix + name
}
// acknowledged by all: a producer's own option does not reach its sends.
const safe = { acks: -1 }
async function write(topic, messages, conf = {}) {
  const p = new Producer({ ...base, ...conf })
  const bytes = v => typeof v === 'string' ? Buffer.from(v) : v
  await p.send({ ...safe, messages: messages.map(m => ({ ...m, topic, key: bytes(m.key), value: bytes(m.value) })) })
  await p.close()
}
const numbered = values => values.map((value, i) => ({ key: `k${i}`, value, partition: i % 3 }))

// member consumes the topic in a group; what it got is in the result. close commits what it got before it leaves.
async function member(topic, group = `reader-${groups++}`, conf = {}, start = { mode: 'committed', fallbackMode: 'earliest' }) {
  const m = { got: [], error: null }
  const options = { ...base, groupId: prefix + group, sessionTimeout: 10_000, heartbeatInterval: 500, maxWaitTime: 500, autocommit: 200, ...conf }
  const consume = async client => ({ client, stream: await client.consume({ topics: [topic], ...start }) })
  // A consumer looks for its coordinator once. Groups move for some seconds after a broker has come back, so that a second one may be needed.
  const { client, stream } = await consume(new Consumer(options)).catch(e => {
    if (e.errors?.at(-1)?.findBy?.('apiId', 'NOT_COORDINATOR')) return consume(new Consumer(options))
    throw e
  })
  stream.on('data', r => m.got.push(r))
  stream.on('error', e => { m.error = e })
  m.partitions = () => client.assignments?.find(a => a.topic === topic)?.partitions ?? []
  m.close = async () => {
    await stream.close()
    await client.close()
  }
  return m
}
async function read(topic, count, conf, start) {
  const m = await member(topic, undefined, conf, start)
  await until(() => m.error || m.got.length >= count, `${count} records`)
  if (m.error) throw m.error
  await m.close()
  same(m.got.length, count, 'records')
  return m.got
}
const values = records => records.map(r => r.value.toString())
const of = (records, partition, field) => records.filter(r => r.partition === partition).map(r => Number(r[field]))

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
    same(of(got, p, 'offset'), range(200), 'offsets')
    same(of(got, p, 'value'), range(200, i => 3 * i + p), 'order')
  }
}

async function group() {
  const name = await topic('group')
  const send = x => write(name, numbered(range(300, i => x + i)))
  await send('a')
  const first = await member(name, 'group')
  const sound = (...members) => { for (const m of members) if (m.error) throw m.error }
  await until(() => { sound(first); return first.partitions().length === 3 && first.got.length > 0 }, 'the first has all partitions')
  const second = await member(name, 'group')
  const both = () => { sound(first, second); return first.partitions().length && second.partitions().length && first.partitions().length + second.partitions().length === 3 }
  await until(both, 'both have partitions')
  await send('b')
  const want = ['a', 'b'].flatMap(x => range(300, i => x + i)).sort()
  const got = () => { sound(first, second); return [...new Set(values([...first.got, ...second.got]))].sort() }
  await until(() => got().length === want.length, 'all records')
  same(got(), want, 'values')
  const observer = new Consumer({ ...base, groupId: prefix + 'group' }) // asks for offsets and joins nothing
  const committed = async () => (await observer.listCommittedOffsets({ topics: [{ topic: name, partitions: range(3) }] })).get(name).reduce((a, b) => a + b)
  await until(async () => await committed() === BigInt(want.length), 'the client commits what it has read')
  await observer.close()
  await first.close()
  await second.close()
  await send('c')
  const third = await member(name, 'group')
  await until(() => { sound(third); return third.got.length >= 300 }, 'the records after the commit')
  same(values(third.got).sort(), range(300, i => 'c' + i).sort(), 'records after the commit')
  await third.close()
}

async function admin() {
  const name = await topic('admin', 2)
  const resource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: name }
  await withAdmin(async a => {
    const partitions = async () => (await a.metadata({ topics: [name], forceUpdate: true })).topics.get(name).partitionsCount
    await until(async () => await partitions() === 2, 'two partitions')
    const change = { name: 'retention.ms', configOperation: IncrementalAlterConfigOperationTypes.SET, value: '123456' }
    await a.incrementalAlterConfigs({ resources: [{ ...resource, configs: [change] }] })
    const described = async () => (await a.describeConfigs({ resources: [resource] }))[0].configs.find(c => c.name === 'retention.ms').value
    await until(async () => await described() === '123456', 'the changed config')
    await a.createPartitions({ topics: [{ name, count: 5, assignments: [] }] })
    await until(async () => await partitions() === 5, 'five partitions')
    check((await a.listTopics()).includes(name), 'the topic is not listed')
    await a.deleteTopics({ topics: [name] })
    await until(async () => !(await a.listTopics()).includes(name), 'the topic is gone')
  })
}

async function seekTime() {
  const [name, begin] = [await topic('seek-time', 1), Date.now() - 100_000]
  await write(name, range(100, i => ({ value: `${i}`, timestamp: BigInt(begin + i * 1000) })))
  const c = new Consumer({ ...base, groupId: prefix + 'times' })
  const offset = (await c.listOffsets({ topics: [name], timestamp: BigInt(begin + 41_500) })).get(name)[0]
  await c.close()
  same(Number(offset), 42, 'offset of the time')
  const got = await read(name, 58, {}, { mode: 'manual', offsets: [{ topic: name, partition: 0, offset }] })
  same(of(got, 0, 'value'), range(58, i => 42 + i), 'records from the time on')
}

async function headers() {
  const name = await topic('headers', 1)
  await write(name, [{ value: 'v', headers: new Map([[Buffer.from('a'), Buffer.from('1')], [Buffer.from('b'), Buffer.alloc(0)]]) }])
  const [record] = await read(name, 1)
  same([...record.headers].map(h => h.map(String)), [['a', '1'], ['b', '']], 'headers')
}

async function nulls() {
  const name = await topic('nulls', 1)
  await write(name, [{ key: null, value: 'v' }, { key: 'k', value: null }, { key: '', value: '' }])
  const text = b => b == null ? null : b.toString()
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

async function brokerKill() {
  const name = await topic('broker-kill')
  const answers = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
  const acked = new Set()
  let [stop, failure] = [false, null]
  const p = new Producer(base)
  const producing = (async () => {
    for (let n = 0; !stop; n += 20) {
      const batch = range(20, i => n + i)
      await p.send({ ...safe, messages: batch.map(i => ({ topic: name, value: Buffer.from(`${i}`), partition: i % 3 })) })
      batch.forEach(i => acked.add(i))
      await pause(20)
    }
  })().catch(e => { failure = e })
  const m = await member(name, 'kill')
  const sound = () => { if (failure || m.error) throw failure ?? m.error }
  const progress = () => {
    const goal = acked.size + 100
    return until(() => { sound(); return acked.size > goal && m.got.length > 0 }, 'progress')
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
  await until(() => { sound(); return missing().length === 0 }, 'every acknowledged record is consumed')
}

const capabilities = {
  ...Object.fromEntries(['none', 'gzip', 'snappy', 'lz4', 'zstd'].map(codec => [`produce-${codec}`, () => produce(codec)])),
  consume: () => ordered('consume'), group, admin, 'seek-time': seekTime, headers, nulls, big,
  idempotent: () => ordered('idempotent', { idempotent: true }), 'broker-kill': brokerKill,
}

if (process.argv[2] === 'list') {
  console.log(Object.keys(capabilities).join('\n'))
} else {
  try {
    await capabilities[process.argv[2]]()
    process.exit(0)
  } catch (e) {
    const cause = e.errors?.at(-1) ?? e.cause
    console.error(`${e.name}: ${e.message} ${cause ?? ''}`.replaceAll('\n', ' '))
    process.exit(1)
  }
}
