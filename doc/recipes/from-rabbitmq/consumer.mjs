// Was: basic.consume with a prefetch of 10, basic.ack, basic.nack.
//
//     node consumer.mjs [30s]      ends when nothing came for so long
const server = process.env.TARRY_SERVER ?? 'http://127.0.0.1:11301';
const patience = process.argv[2];

async function post(path, body) {
    const reply = await fetch(server + path, { method: 'POST', body });
    const text = await reply.text();
    return text ? JSON.parse(text) : null;
}

async function handle(job) {
    try {
        console.log(`${job.key}: ${job.body}`);
        await post(`/v1/jobs/${job.id}/ack?lease=${job.lease}`);
    } catch (trouble) { // basic.nack with requeue; here it waits by the backoff, and is dead in the end
        await post(`/v1/jobs/${job.id}/release?lease=${job.lease}`);
    }
}

let said;
do {
    said = await post(`/v1/topics/orders/reserve?count=10&wait=${patience ?? '30s'}`);
    await Promise.all((said?.jobs ?? []).map(handle));
} while (said || !patience);
