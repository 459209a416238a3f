// Does the chores that schedules make.
//
//     node worker.mjs [30s]      ends when nothing came for so long
const server = process.env.TARRY_SERVER ?? 'http://127.0.0.1:11301';
const patience = process.argv[2];

// [status, answer] of the server
async function ask(method, path, body) {
    const reply = await fetch(server + path, { method, body });
    const text = await reply.text();
    return [reply.status, text ? JSON.parse(text) : null];
}

const chores = {
    report: (job) => console.log(`report of ${job.due}`),
    sweep: (job) => console.log(`swept at ${job.due}`),
};

let status, said;
do {
    [status, said] = await ask('POST', `/v1/topics/chores/reserve?wait=${patience ?? '30s'}`);
    for (const job of said?.jobs ?? []) {
        try {
            await chores[job.body](job);
            await ask('POST', `/v1/jobs/${job.id}/ack?lease=${job.lease}`);
        } catch (trouble) { // it comes again by the backoff of the topic
            console.error(`${job.body}: ${trouble.message}`);
            await ask('POST', `/v1/jobs/${job.id}/release?lease=${job.lease}`);
        }
    }
} while (status === 200 || !patience);
