// A load for BullMQ, as bench-load has it for the others: `node bench/bullmq.js FOLDER MODE PORT CONNS DEPTH
// SECONDS RATE`. FOLDER: where npm has put BullMQ. Prints one line of figures; see cluster_rows.py.
//
//     put      jobs that are due far ahead, CONNS * DEPTH of them under way
//     cycle    the same without a delay, and workers that take and end them
//     trickle  RATE jobs a second, each due 1 to 5 s later: how late are they?
'use strict';

const path = require('path');
const { createRequire } = require('module');

const [folder, mode, port, conns, depth, seconds, rate] = process.argv.slice(2);
const { Queue, Worker } = createRequire(path.join(folder, 'package.json'))('bullmq');

const BODY = 'x'.repeat(100);
const FAR_MS = 10000 * 1000;
const LINKS = 8; // a connection of its own for each queue object; more do not make it faster
const under_way = Number(conns) * Number(depth);
const connection = { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null };
const options = { removeOnComplete: true, removeOnFail: true };

const now_us = () => (performance.timeOrigin + performance.now()) * 1000;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

function spread(values, parts) {
    const sorted = values.sort((a, b) => a - b);
    const at = (part) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] || 0);
    return Object.fromEntries(parts.map(([name, part]) => [name, at(part)]));
}

async function make_queues() {
    const count = mode === 'trickle' ? 1 : Math.min(LINKS, Number(conns));
    const made = Array.from({ length: count }, () => new Queue('bench', { connection }));
    await Promise.all(made.map((queue) => queue.waitUntilReady()));
    return made;
}

async function make_workers(each, concurrency) {
    const count = mode === 'trickle' ? 1 : Math.min(LINKS, Number(conns));
    const made = Array.from({ length: count }, () => new Worker('bench', each, {
        connection, concurrency: Math.max(1, Math.ceil(concurrency / count)),
    }));
    await Promise.all(made.map((worker) => worker.waitUntilReady()));
    return made;
}

// So many at once until the time is over; gives how many it were, and how long each took.
async function add_for(queues, ms, delay) {
    const end = performance.now() + ms;
    const took = [];
    let added = 0;
    await Promise.all(Array.from({ length: under_way }, async (_, i) => {
        while (performance.now() < end) {
            const began = performance.now();
            await queues[i % queues.length].add('j', BODY, { ...options, delay });
            added += 1;
            if (took.length < 1e6) {
                took.push((performance.now() - began) * 1000);
            }
        }
    }));
    return { added, took };
}

async function put(queues) {
    const began = performance.now();
    const { added, took } = await add_for(queues, Number(seconds) * 1000, FAR_MS);
    const secs = (performance.now() - began) / 1000;
    return { jobs: added, ops: added / secs, secs, ...spread(took, [['p50_us', 0.5], ['p99_us', 0.99]]) };
}

// A job that was ended makes room for the next one, so that as many are under way as with the others.
async function cycle(queues) {
    const took = [];
    const room = [];
    let done = 0;
    let made = 0;
    const workers = await make_workers(async () => {
    }, under_way);
    workers.forEach((worker) => worker.on('completed', (job) => {
        done += 1;
        took.push(now_us() - job.timestamp * 1000);
        room.splice(0, 1).forEach((go) => go());
    }));
    const began = performance.now();
    const end = began + Number(seconds) * 1000;
    await Promise.all(Array.from({ length: under_way }, async (_, i) => {
        while (performance.now() < end) {
            made += 1;
            const ended = new Promise((go) => room.push(go));
            await queues[i % queues.length].add('j', BODY, options);
            await Promise.race([ended, sleep(20000)]);
        }
    }));
    const secs = (performance.now() - began) / 1000;
    await Promise.all(workers.map((worker) => worker.close()));
    return { jobs: done, ops: done / secs, secs, lost: made - done,
        ...spread(took, [['p50_us', 0.5], ['p99_us', 0.99]]) };
}

async function trickle(queues) {
    const late = [];
    const began = performance.now();
    const workers = await make_workers(async (job) => {
        late.push(now_us() - job.data.due * 1000);
    }, 64);
    const total = Math.round(Number(rate) * Number(seconds));
    for (let made = 0; made < total;) {
        const wanted = Math.min(total, Math.ceil((performance.now() - began) / 1000 * Number(rate)));
        const some = [];
        for (; made < wanted; made += 1) {
            const delay = 1000 + Math.floor(Math.random() * 4000);
            some.push(queues[0].add('j', { due: Date.now() + delay, body: BODY }, { ...options, delay }));
        }
        await Promise.all(some);
        await sleep(1);
    }
    const end = performance.now() + 30000;
    while (late.length < total && performance.now() < end) {
        await sleep(20);
    }
    const secs = (performance.now() - began) / 1000;
    await Promise.all(workers.map((worker) => worker.close()));
    return { jobs: late.length, secs, lost: total - late.length, early: late.filter((us) => us < -1000).length,
        ...spread(late, [['late_p50_us', 0.5], ['late_p99_us', 0.99], ['late_p999_us', 0.999], ['late_max_us', 1]]) };
}

async function main() {
    const queues = await make_queues();
    const before = process.cpuUsage();
    const got = await { put, cycle, trickle }[mode](queues);
    const used = process.cpuUsage(before);
    got.client_cpu = (used.user + used.system) / 1e6;
    await Promise.all(queues.map((queue) => queue.close()));
    console.log('load', Object.entries(got).map(([name, value]) => `${name}=${+Number(value).toFixed(3)}`).join(' '));
    process.exit(got.lost > 0 || got.early > 0 ? 1 : 0);
}

main();
