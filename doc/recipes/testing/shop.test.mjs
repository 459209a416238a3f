// A test of a program with delays, without waiting: node --test shop.test.mjs
//
// The server is the test's own, in a temporary folder; its clock stands still until it is told.
// TARRY names the binary, if it is not in the PATH.
import assert from 'node:assert';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { after, before, test } from 'node:test';

let server, folder, url;

before(async () => {
    folder = mkdtempSync(`${tmpdir()}/shop-`);
    server = spawn(process.env.TARRY ?? 'tarry',
        ['serve', '--data', `${folder}/store`, '--test-clock', '--http', '127.0.0.1:0', '--beanstalk', 'off'],
        { stdio: ['ignore', 'pipe', 'inherit'] });
    let said = '';
    for await (const chunk of server.stdout) {
        said += chunk;
        if (said.includes('ready in')) break;
    }
    url = `http://${said.match(/http on (\S+)/)[1]}`;
});

after(() => {
    server.kill();
    server.on('exit', () => rmSync(folder, { recursive: true }));
});

async function ask(method, path, body) {
    const reply = await fetch(url + path, { method, body });
    const text = await reply.text();
    return text ? JSON.parse(text) : null;
}

const advance = (by) => ask('POST', `/v1/clock/advance?by=${by}`);
const closed = async () => ((await ask('POST', '/v1/topics/unpaid/reserve?count=100'))?.jobs ?? []).map((job) => job.body);

test('an unpaid order is closed after half an hour, a paid one never', async () => {
    await ask('POST', '/v1/topics/unpaid/jobs?delay=30m&key=order-42', 'order-42');
    await ask('POST', '/v1/topics/unpaid/jobs?delay=30m&key=order-43', 'order-43');
    await ask('DELETE', '/v1/topics/unpaid/keys/order-43');
    await advance('29m59s');
    assert.deepStrictEqual(await closed(), []);
    await advance('1s');
    assert.deepStrictEqual(await closed(), ['order-42']);
});
