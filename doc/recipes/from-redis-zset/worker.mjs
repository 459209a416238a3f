// Was: a loop of ZRANGEBYSCORE delayed 0 <now>, ZREM, HGET, sleep.
//
//     node worker.mjs [30s]      ends when nothing came for so long
const server = process.env.TARRY_SERVER ?? 'http://127.0.0.1:11301';
const patience = process.argv[2];

async function post(path) {
    const reply = await fetch(server + path, { method: 'POST' });
    const text = await reply.text();
    if (!reply.ok) {
        throw new Error(`${path}: ${reply.status} ${text}`);
    }
    return text ? JSON.parse(text) : null;
}

let said;
do {
    said = await post(`/v1/topics/orders/reserve?count=10&wait=${patience ?? '30s'}`);
    for (const job of said?.jobs ?? []) {
        console.log(`${job.key}: ${job.body}`);
        await post(`/v1/jobs/${job.id}/ack?lease=${job.lease}`);
    }
} while (said || !patience);
