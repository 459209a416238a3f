// Was: a loop of ZRANGEBYSCORE delayed 0 <now>, ZREM, HGET, sleep.
//
//     node worker.mjs [30s]      ends when nothing came for so long
import { setTimeout as sleep } from 'node:timers/promises';

const server = process.env.TARRY_SERVER ?? 'http://127.0.0.1:11301';
const patience = process.argv[2];

// [status, answer] of the server
async function post(path) {
    const reply = await fetch(server + path, { method: 'POST' });
    const text = await reply.text();
    return [reply.status, text ? JSON.parse(text) : null];
}

async function ack(job) {
    const [status, said] = await post(`/v1/jobs/${job.id}/ack?lease=${job.lease}`);
    if (status !== 200) { // say, it took longer than the ttr: the lease was lost, and the job comes again
        console.error(`${job.key}: ${said.error.message}`);
    }
}

let status, said;
do {
    [status, said] = await post(`/v1/topics/orders/reserve?count=10&wait=${patience ?? '30s'}`);
    if (status > 204) { // the server is draining, or not ready: it passes
        console.error(said.error.message);
        await sleep(1000);
    }
    for (const job of said?.jobs ?? []) {
        console.log(`${job.key}: ${job.body}`);
        await ack(job);
    }
} while (status !== 204 || !patience);
