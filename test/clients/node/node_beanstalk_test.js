'use strict'
// The whole API of node-beanstalk against the server on a port: node node_beanstalk_test.js PORT
const assert = require('assert')
const { Client, Pool, BeanstalkJobState } = require('node-beanstalk')
const { run, took } = require('./check')

const port = Number(process.argv[2])
const same = assert.deepStrictEqual
const client = new Client({ host: '127.0.0.1', port })
const other = new Client({ host: '127.0.0.1', port })
const TUBE_KEYS = ['name', 'current-jobs-urgent', 'current-jobs-ready', 'current-jobs-reserved',
  'current-jobs-delayed', 'current-jobs-buried', 'total-jobs', 'current-using', 'current-waiting',
  'current-watching', 'pause', 'cmd-delete', 'cmd-pause-tube', 'pause-time-left']
const JOB_KEYS = ['id', 'tube', 'state', 'pri', 'age', 'delay', 'ttr', 'time-left', 'file',
  'reserves', 'timeouts', 'releases', 'buries', 'kicks']

run([
  ['connect', async () => {
    await client.connect()
    await other.connect()
    same([client.isConnected, other.isConnected], [true, true])
  }],
  ['use, watch, ignore', async () => {
    same(await client.use('nb.work'), 'nb.work')
    same(await client.listTubeUsed(), 'nb.work')
    same(await client.watch('nb.work'), 2)
    same((await client.listTubesWatched()).sort(), ['default', 'nb.work'])
    same(await client.ignore('default'), true)
    same(await client.ignore('nb.work'), false)
    same((await client.listTubes()).sort(), ['default', 'nb.work'])
  }],
  ['put and reserve', async () => {
    const late = await client.put('late', 60, 1000)
    const soon = await client.put({ text: 'a\r\nb \u2603' }, 33, 10)
    same(soon.state, BeanstalkJobState.ready)
    same(await client.reserve(), { id: soon.id, payload: { text: 'a\r\nb \u2603' } })
    const stats = await client.statsJob(soon.id)
    same(JOB_KEYS.filter(key => !(key in stats)), [])
    same([stats.state, stats.tube, stats.pri, stats.ttr], ['reserved', 'nb.work', 10, 33])
    same(await client.delete(soon.id), true)
    same(await client.delete(soon.id), false)
    same(await client.reserveWithTimeout(5), { id: late.id, payload: 'late' })
    same(await client.delete(late.id), true)
  }],
  ['reserve with a timeout', async () => {
    same(await client.reserveWithTimeout(0), null)
    const [none, ms] = await took(client.reserveWithTimeout(1))
    same(none, null)
    assert(ms >= 990, ms)
  }],
  ['delay', async () => {
    const start = Date.now()
    const put = await client.put('later', 60, 0, 1)
    same(put.state, BeanstalkJobState.delayed)
    same((await client.peekDelayed()).id, put.id)
    same((await client.reserveWithTimeout(10)).id, put.id)
    assert(Date.now() - start >= 990)
    await client.delete(put.id)
  }],
  ['a waiting reserve is answered by a put', async () => {
    const waiting = client.reserve()
    await other.use('nb.work')
    const { id } = await other.put('now')
    same((await waiting).id, id)
    same(await other.delete(id), false)
    same(await client.delete(id), true)
  }],
  ['reserve-job, release, touch, bury, kick', async () => {
    const { id } = await client.put('round', 60, 0, 60)
    same(await client.reserveJob(id), { id, payload: 'round' })
    same(await other.reserveJob(id), null)
    same(await client.touch(id), true)
    same(await client.release(id, 7, 60), BeanstalkJobState.delayed)
    const stats = await client.statsJob(id)
    same([stats.state, stats.pri, stats.delay, stats.releases], ['delayed', 7, 60, 1])
    same(await client.kickJob(id), true)
    same((await client.peekReady()).id, id)
    same((await client.reserve()).id, id)
    same(await client.bury(id, 5), true)
    same((await client.peekBuried()).id, id)
    same(await client.kick(10), 1)
    same(await client.kick(10), 0)
    same((await client.reserve()).id, id)
    same(await client.delete(id), true)
    same([await client.kickJob(id), await client.touch(id), await client.release(id),
      await client.bury(id), await client.peek(id), await client.reserveJob(id),
      await client.statsJob(id), await client.peekReady(), await client.peekDelayed(),
      await client.peekBuried()],
    [false, false, null, false, null, null, null, null, null, null])
  }],
  ['pause', async () => {
    const { id } = await client.put('paused')
    same(await client.pauseTube('nb.work', 60), true)
    same((await client.statsTube('nb.work')).pause, 60)
    same(await client.reserveWithTimeout(0), null)
    same(await client.pauseTube('nb.work', 0), true)
    same((await client.reserveWithTimeout(5)).id, id)
    await client.delete(id)
    same(await client.pauseTube('nb.nowhere', 1), false)
  }],
  ['stats', async () => {
    const stats = await client.stats()
    same([stats['max-job-size'], stats['current-connections']], [65535, 2])
    const tube = await client.statsTube('nb.work')
    same(TUBE_KEYS.filter(key => !(key in tube)), [])
    same([tube.name, tube['current-using'], tube['current-watching']], ['nb.work', 2, 1])
    same(await client.statsTube('nb.nowhere'), null)
  }],
  ['pool', async () => {
    const pool = new Pool({ capacity: 5, clientOptions: { host: '127.0.0.1', port } })
    await Promise.all([...Array(50).keys()].map(async i => {
      const worker = await pool.connect()
      await worker.use(`nb.pool.${i}`)
      const { id } = await worker.put(`job ${i}`)
      same((await worker.peek(id)).payload, `job ${i}`)
      same(await worker.delete(id), true)
      await worker.releaseClient()
    }))
    await pool.disconnect()
  }],
  ['disconnect', async () => {
    const { id } = await client.put('held')
    await client.reserve()
    await client.disconnect()
    await other.watch('nb.work')
    same((await other.reserveWithTimeout(5)).id, id)
    await other.disconnect()
  }]
])
