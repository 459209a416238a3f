'use strict'
// The whole API of jackd against the server on a port: node jackd_test.js PORT
const assert = require('assert')
const Jackd = require('jackd')
const { run, table, list, took } = require('./check')

const port = Number(process.argv[2])
const same = assert.deepStrictEqual
const client = new Jackd()
const other = new Jackd()

// pauseTube of jackd 2 forgets the end of its line, so it is given one with the delay.
const pause = (tube, seconds) => client.pauseTube(tube, { delay: `${seconds}\r\n` })

run([
  ['connect', async () => {
    await client.connect({ host: '127.0.0.1', port })
    await other.connect({ host: '127.0.0.1', port })
    same([client.isConnected(), other.isConnected()], [true, true])
  }],
  ['use, watch, ignore', async () => {
    same(await client.use('node.work'), 'node.work')
    same(await client.listTubeUsed(), 'node.work')
    same(await client.getCurrentTube(), 'node.work')
    same(await client.watch('node.work'), 2)
    same(await client.watch('node.other'), 3)
    same(list(await client.listTubesWatched()), ['default', 'node.other', 'node.work'])
    same(await client.ignore('default'), 2)
    same(await client.ignore('node.other'), 1)
    await assert.rejects(client.ignore('node.work'), /NOT_IGNORED/)
    same(list(await client.listTubes()), ['default', 'node.work'])
  }],
  ['put and reserve', async () => {
    const bytes = Buffer.from('a \0\xff\r\nb', 'latin1')
    const late = await client.put('late', { priority: 1000 })
    const soon = await client.put(bytes.toString('latin1'), { priority: 10, ttr: 33 })
    const job = await client.reserve()
    same([job.id, job.payload], [soon, Buffer.from(bytes.toString('latin1'))])
    const stats = table(await client.statsJob(job.id))
    same([stats.state, stats.tube, stats.pri, stats.ttr], ['reserved', 'node.work', '10', '33'])
    await client.delete(job.id)
    await assert.rejects(client.delete(job.id), /NOT_FOUND/)
    const next = await client.reserveWithTimeout(5)
    same([next.id, next.payload.toString()], [late, 'late'])
    await client.delete(next.id)
    await client.put({ order: 42 })
    const object = await client.reserve()
    same(JSON.parse(object.payload), { order: 42 })
    await client.delete(object.id)
  }],
  ['reserve with a timeout', async () => {
    await assert.rejects(client.reserveWithTimeout(0), /TIMED_OUT/)
    const [, ms] = await took(assert.rejects(client.reserveWithTimeout(1), /TIMED_OUT/))
    assert(ms >= 990, ms)
  }],
  ['delay', async () => {
    const start = Date.now()
    const id = await client.put('later', { delay: 1 })
    same((await client.peekDelayed()).id, id)
    const job = await client.reserveWithTimeout(10)
    same(job.id, id)
    assert(Date.now() - start >= 990)
    await client.delete(id)
  }],
  ['a waiting reserve is answered by a put', async () => {
    const waiting = client.reserve()
    await other.use('node.work')
    const id = await other.put('now')
    same((await waiting).id, id)
    await assert.rejects(other.delete(id), /NOT_FOUND/)
    await client.delete(id)
  }],
  ['reserve-job, release, touch, bury, kick', async () => {
    const id = await client.put('round', { delay: 60 })
    same((await client.reserveJob(id)).payload.toString(), 'round')
    await assert.rejects(other.reserveJob(id), /NOT_FOUND/)
    await client.touch(id)
    await client.release(id, { priority: 7, delay: 60 })
    const stats = table(await client.statsJob(id))
    same([stats.state, stats.pri, stats.delay, stats.releases], ['delayed', '7', '60', '1'])
    await client.kickJob(id)
    same((await client.peekReady()).id, id)
    await client.bury((await client.reserve()).id, 5)
    same((await client.peekBuried()).id, id)
    same(await client.kick(10), 1)
    same(await client.kick(10), 0)
    await client.delete((await client.reserve()).id)
    for (const gone of [client.kickJob, client.touch, client.release, client.peek,
      client.reserveJob, client.delete]) {
      await assert.rejects(gone(id), /NOT_FOUND/)
    }
    await assert.rejects(client.bury(id, 0), /NOT_FOUND/)
    await assert.rejects(client.peekReady(), /NOT_FOUND/)
  }],
  ['deadline soon', async () => {
    await client.put('short', { ttr: 1 })
    const job = await client.reserve()
    await assert.rejects(client.reserve(), /DEADLINE_SOON/)
    await client.delete(job.id)
  }],
  ['pause', async () => {
    const id = await client.put('paused')
    await pause('node.work', 60)
    same(table(await client.statsTube('node.work')).pause, '60')
    await assert.rejects(client.reserveWithTimeout(0), /TIMED_OUT/)
    await pause('node.work', 0)
    same((await client.reserveWithTimeout(5)).id, id)
    await client.delete(id)
    await assert.rejects(pause('node.nowhere', 1), /NOT_FOUND/)
  }],
  ['stats', async () => {
    const stats = table(await client.stats())
    same([stats['max-job-size'], stats['current-connections']], ['65535', '2'])
    const tube = table(await client.statsTube('node.work'))
    same([tube.name, tube['current-using'], tube['current-watching']], ['node.work', '2', '1'])
    await assert.rejects(client.statsTube('node.nowhere'), /NOT_FOUND/)
    await assert.rejects(client.statsJob('987654321'), /NOT_FOUND/)
  }],
  ['many at once', async () => {
    const numbers = [...Array(500).keys()]
    const ids = await Promise.all(numbers.map(i => client.put(`job ${i}`)))
    same(new Set(ids).size, 500)
    for (const i of numbers) {
      const job = await client.reserve()
      same([job.id, job.payload.toString()], [ids[i], `job ${i}`])
    }
    await Promise.all(ids.map(id => client.delete(id)))
  }],
  ['limits', async () => {
    const id = await client.put('z'.repeat(65535))
    same((await client.peek(id)).payload.toString(), 'z'.repeat(65535))
    await client.delete(id)
    await assert.rejects(client.put('z'.repeat(65536)), /JOB_TOO_BIG/)
  }],
  ['quit', async () => {
    await client.put('held')
    await client.reserve()
    await client.quit()
    await other.watch('node.work')
    same((await other.reserveWithTimeout(5)).payload.toString(), 'held')
  }]
])
