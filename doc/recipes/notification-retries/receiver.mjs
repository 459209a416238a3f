// A shop that is told when it was paid: checks the signature, and says "success" from attempt N on.
//
//     node receiver.mjs PORT SECRET N
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

const [port, secret, goodFrom] = process.argv.slice(2);
const seen = new Set(); // ids of notifications that are done; a real shop has this in its database

function isFromTarry(header, body) {
    const parts = header.split(',').map((part) => part.split('='));
    const [, t] = parts.find(([name]) => name === 't') ?? [];
    const right = createHmac('sha256', secret).update(`${t}.`).update(body).digest();
    const given = parts.filter(([name]) => name === 'v1') // of the new secret, and of the old
        .map(([, value = '']) => Buffer.from(value, 'hex'));
    return Math.abs(Date.now() / 1000 - t) < 300 &&
        given.some((one) => one.length === right.length && timingSafeEqual(one, right));
}

createServer(async (request, reply) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const { 'tarry-attempt': attempt, 'tarry-due': due, 'idempotency-key': name } = request.headers;
    if (!isFromTarry(request.headers['tarry-signature'] ?? '', body)) {
        reply.writeHead(403).end('who are you?');
    } else if (Number(attempt) < Number(goodFrom)) {
        console.log(`${due} attempt ${attempt}: not now`);
        reply.writeHead(503).end('not now');
    } else {
        if (!seen.has(name)) { // it may come twice: the second time there is nothing to do
            seen.add(name);
            console.log(`${due} attempt ${attempt}: ${body}`);
        }
        reply.writeHead(200).end('success');
    }
}).listen(Number(port), '127.0.0.1');
