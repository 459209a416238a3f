// Does the chores that schedules make.
//
//     node worker.mjs [30s]      ends when nothing came for so long
import { setTimeout as sleep } from 'node:timers/promises';

const server = process.env.TARRY_SERVER ?? 'http://127.0.0.1:11301';
const patience = process.argv[2];

// [status, answer] of the server
async function ask(method, path, body) {
    const reply = await fetch(server + path, { method, body });
    const text = await reply.text();
    return [reply.status, text ? JSON.parse(text) : null];
}

async function finish(job, how) {
    const [status, said] = await ask('POST', `/v1/jobs/${job.id}/${how}?lease=${job.lease}`);
    if (status !== 200) { // say, it took longer than the ttr: the lease was lost, and the job comes again
        console.error(`${job.body}: ${said.error.message}`);
    }
}

const chores = {
    report: (job) => console.log(`report of ${job.due}`),
    sweep: (job) => console.log(`swept at ${job.due}`),
};

let status, said;
do {
    [status, said] = await ask('POST', `/v1/topics/chores/reserve?wait=${patience ?? '30s'}`);
    if (status > 204) { // the server is draining, or not ready: it passes
        console.error(said.error.message);
        await sleep(1000);
    }
    for (const job of said?.jobs ?? []) {
        let how = 'ack';
        try {
            await chores[job.body](job);
        } catch (trouble) { // it comes again by the backoff of the topic
            console.error(`${job.body}: ${trouble.message}`);
            how = 'release';
        }
        await finish(job, how);
    }
} while (status !== 204 || !patience);
