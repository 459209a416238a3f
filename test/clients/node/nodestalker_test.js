'use strict'
// nodestalker against the server on a port: node nodestalker_test.js PORT
// It takes what one read gives it as the whole of a short reply, so a reply with a body that
// leaves the server in two pieces breaks it.
const assert = require('assert')
const bs = require('nodestalker')
const { run } = require('./check')

const port = Number(process.argv[2])
const same = assert.deepStrictEqual
const client = bs.Client({ address: '127.0.0.1', port })

/** A promise of a command. */
const does = command => new Promise((resolve, reject) => {
  command.onSuccess(resolve).onError(words => reject(new Error(words.join(' '))))
})

run([
  ['use, watch, ignore', async () => {
    same(await does(client.use('ns.work')), ['ns.work'])
    same(await does(client.list_tube_used()), ['ns.work'])
    same(await does(client.watch('ns.work')), ['2'])
    same(await does(client.ignore('default')), ['1'])
    same(await does(client.list_tubes_watched()), ['ns.work'])
    same((await does(client.list_tubes())).sort(), ['default', 'ns.work'])
  }],
  ['put, reserve, touch, delete', async () => {
    for (let i = 0; i < 200; i++) {
      const body = `body ${i} ` + 'x'.repeat(i * 5)
      const [id] = await does(client.put(body))
      same(await does(client.reserve()), { id, data: body })
      await does(client.touch(id))
      await does(client.deleteJob(id))
    }
  }],
  ['delay, reserve with a timeout', async () => {
    const start = Date.now()
    const [id] = await does(client.put('later', 10, 1))
    same((await does(client.peek_delayed())).id, id)
    same(await does(client.reserveWithTimeout(10)), { id, data: 'later' })
    assert(Date.now() - start >= 990)
    await does(client.deleteJob(id))
    const failed = does(bs.Client({ address: '127.0.0.1', port }).reserveWithTimeout(0))
    await assert.rejects(failed, /TIMED_OUT/)
  }],
  ['release, bury, kick, peek', async () => {
    const [id] = await does(client.put('round'))
    await does(client.reserve())
    await does(client.release(id, 7, 0))
    same((await does(client.peek_ready())).id, id)
    same((await does(client.peek(id))).data, 'round')
    await does(client.reserve())
    await does(client.bury(id, 5))
    same((await does(client.peek_buried())).id, id)
    same(await does(client.kick(10)), ['1'])
    same((await does(client.reserve())).id, id)
    await does(client.deleteJob(id))
  }],
  ['pause', async () => {
    await does(client.pause_tube('ns.work', 60))
    same((await does(client.stats_tube('ns.work'))).pause, 60)
    await does(client.pause_tube('ns.work', 0))
  }],
  ['stats', async () => {
    const [id] = await does(client.put('x'))
    const job = await does(client.stats_job(id))
    same([job.id, job.state, job.tube], [Number(id), 'ready', 'ns.work'])
    same((await does(client.stats()))['max-job-size'], 65535)
    same((await does(client.stats_tube('ns.work'))).name, 'ns.work')
    await does(client.deleteJob(id))
  }]
])
