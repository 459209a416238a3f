// A document is saved five seconds after the last edit, or at most every five seconds.
//
//     node save.mjs edit NAME TEXT       debounce: each edit puts the save off
//     node save.mjs touch NAME TEXT      throttle: the first edit sets the time, the others change nothing
//     node save.mjs work [30s]           saves; ends when nothing came for so long
import { setTimeout as sleep } from 'node:timers/promises';

const server = process.env.TARRY_SERVER ?? 'http://127.0.0.1:11301';

// [status, answer] of the server
async function ask(method, path, body) {
    const reply = await fetch(server + path, { method, body });
    const text = await reply.text();
    return [reply.status, text ? JSON.parse(text) : null];
}

async function push(name, text, onConflict) {
    const query = new URLSearchParams({ delay: '5s', key: name, on_conflict: onConflict });
    let status, said;
    do {
        [status, said] = await ask('POST', `/v1/topics/saves/jobs?${query}`, text);
        if (status === 409) { // it is being saved at this moment: after that there is room for a new job
            await sleep(100);
        }
    } while (status === 409);
    if (status >= 300) throw new Error(said.error.message);
    console.log(`${name}: ${said.created ? 'will be' : 'would be'} saved at ${said.due}`);
}

async function ack(job) {
    const [status, said] = await ask('POST', `/v1/jobs/${job.id}/ack?lease=${job.lease}`);
    if (status !== 200) { // say, it took longer than the ttr: the lease was lost, and the job comes again
        console.error(`${job.key}: ${said.error.message}`);
    }
}

async function work(patience) {
    let status, said;
    do {
        [status, said] = await ask('POST', `/v1/topics/saves/reserve?wait=${patience ?? '30s'}`);
        if (status > 204) { // the server is draining, or not ready: it passes
            console.error(said.error.message);
            await sleep(1000);
        }
        for (const job of said?.jobs ?? []) {
            console.log(`${job.key}: saved as '${job.body}'`);
            await ack(job);
        }
    } while (status !== 204 || !patience);
}

const [word, ...more] = process.argv.slice(2);
if (word === 'work') await work(more[0]);
else await push(more[0], more[1], { edit: 'replace', touch: 'keep' }[word]);
