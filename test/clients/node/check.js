'use strict'
// What the programs beside this file share.
const assert = require('assert')

/** Runs the parts in order, each [name, function], and ends the process; bounded in time. */
exports.run = async parts => {
  setTimeout(() => {
    console.error('no answer')
    process.exit(3)
  }, 30000).unref()
  for (const [name, part] of parts) {
    try {
      await part()
    } catch (error) {
      console.error(`not ok ${name}:`, error)
      process.exit(1)
    }
    console.log(`ok ${name}`)
  }
  console.log('ok all')
  process.exit(0)
}

/** Of "---\nkey: value\n..." the pairs, without quotes. */
exports.table = text => {
  const [head, ...rows] = text.split('\n')
  assert.strictEqual(head, '---')
  return Object.fromEntries(rows.filter(row => row).map(row => {
    const at = row.indexOf(': ')
    return [row.slice(0, at), row.slice(at + 2).replace(/^"|"$/g, '')]
  }))
}

/** Of "---\n- name\n..." the names, sorted. */
exports.list = text => text.split('\n').slice(1).filter(row => row).map(row => row.slice(2)).sort()

/** Milliseconds that a promise takes. */
exports.took = async promise => {
  const start = process.hrtime.bigint()
  const value = await promise
  return [value, Number(process.hrtime.bigint() - start) / 1e6]
}
