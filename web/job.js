/* One job: what it is, its body, when it is due, what happened to it, and what can be done now. */
import {el, facts, section, link, button, say} from './dom.js';
import {get, now, Refused} from './api.js';
import {every} from './live.js';
import {count, duration, fullMoment, moment, stateMark, bytes} from './format.js';
import {actionBar, buryJob, cancelJob, fireJob, kickJob, rescheduleJob, editJob, pushJob} from './actions.js';

const SHOWN = 65536; /* bytes of a body */
const DEEP = 100; /* brackets within brackets; deeper ones are shown as text */

/* ---- the body ---- */

function hex(data) {
    const lines = [];

    for (let at = 0; at < data.length; at += 16) {
        const row = [...data.subarray(at, at + 16)];
        const digits = row.map(byte => byte.toString(16).padStart(2, '0')).join(' ');
        const text = row.map(byte => byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '.').join('');

        lines.push(`${at.toString(16).padStart(8, '0')}  ${digits.padEnd(47)}  ${text}`);
    }
    return lines.join('\n');
}

/*
 * JSON with its lines indented, null if it is none. The text itself is, not what a parser makes of
 * it: that would round long numbers and drop members of the same name.
 */
function asJson(text) {
    try {
        JSON.parse(text);
    } catch {
        return null;
    }
    const line = depth => '\n' + '  '.repeat(depth);
    let out = '';
    let depth = 0;
    let before = '';

    for (const part of text.match(/"(?:[^"\\]+|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/g)) {
        const opened = before === '{' || before === '[';

        if (part === '}' || part === ']') {
            depth--;
            out += opened ? part : line(depth) + part;
        } else {
            out += (opened || before === ',' ? line(depth) : before === ':' ? ' ' : '') + part;
            depth += part === '{' || part === '[';
        }
        if (depth > DEEP) {
            return null;
        }
        before = part;
    }
    return out;
}

/* Text, JSON if it is some, and hex; whatever it is, it is shown as text. */
function bodyView(job) {
    const data = job.body !== undefined ? new TextEncoder().encode(job.body)
        : Uint8Array.from(atob(job.body_base64 ?? ''), c => c.charCodeAt(0));
    const json = job.body !== undefined && job.body.length <= SHOWN ? asJson(job.body) : null;
    const ways = [
        json !== null && job.body.trim() !== '' ? ['JSON', () => json] : null,
        job.body !== undefined ? ['text', () => job.body.slice(0, SHOWN)] : null,
        ['hex', () => hex(data.subarray(0, SHOWN))],
    ].filter(Boolean);
    const pre = el('pre', {class: 'body', tabindex: '0'});
    const tabs = ways.map(([name, make], i) => button(name, () => choose(i), {'aria-pressed': 'false'}));

    function choose(i) {
        pre.textContent = ways[i][1]();
        tabs.forEach((tab, k) => tab.setAttribute('aria-pressed', String(k === i)));
    }
    choose(0);
    return section('Body', el('div', {class: 'tabs'}, tabs, el('small', {}, ` ${bytes(data.length)}`
        + (data.length > SHOWN ? `, the first ${bytes(SHOWN)} are shown` : ''))), pre);
}

/* ---- its past ---- */

function timeline(events) {
    return el('ol', {class: 'timeline'}, events.map((event, i) => el('li', {},
        el('time', {title: new Date(event.at_ms).toISOString()}, fullMoment(event.at_ms)), ' ',
        stateMark(event.state), ' ', el('span', {}, event.why ?? ''),
        event.by ? el('span', {}, ` by ${event.by}`) : null,
        i > 0 ? el('small', {}, ` after ${duration(event.at_ms - events[i - 1].at_ms)}`) : null)));
}

function actions(job, again) {
    const waits = job.state === 'delayed' || job.state === 'ready';

    return actionBar([
        job.state === 'delayed' && ['produce', 'Fire now …', () => fireJob(job)],
        waits && ['produce', 'Reschedule …', () => rescheduleJob(job)],
        waits && ['produce', 'Edit …', () => editJob(job)],
        job.state === 'dead' && ['admin', 'Bring it back …', () => kickJob(job)],
        ['produce', 'Push one like it …', () => pushJob(job.topic, job)],
        waits && ['consume', 'Bury …', () => buryJob(job), true],
        ['produce', 'Cancel …', () => cancelJob(job), true],
    ], again);
}

function told(job) {
    return facts([
        ['state', stateMark(job.state)],
        ['topic', link(['topics', job.topic], {}, job.topic)],
        job.key !== undefined && ['key', job.key],
        job.tag !== undefined && ['tag', link(['jobs'], {topic: job.topic, tag: job.tag}, job.tag)],
        ['due', `${fullMoment(job.due_ms)}`],
        ['made', fullMoment(job.created_ms)],
        ['attempts', `${count(job.attempts)} of ${job.retries < 0 ? 'any number' : count(job.retries + 1)}`],
        ['priority', count(job.priority), 'smaller first'],
        ['time to run', duration(job.ttr_ms)],
        job.ttl_ms !== undefined && ['time to live', duration(job.ttl_ms), 'counted from due'],
        job.backoff !== undefined && ['backoff', job.backoff],
        job.late_ms !== undefined && ['late', duration(job.late_ms), 'became ready after due'],
        job.reason !== undefined && ['dead because', job.reason],
        job.dead_ms !== undefined && ['dead since', fullMoment(job.dead_ms)],
        job.damaged && ['damaged', 'what is stored of it cannot be read'],
    ]);
}

/* Until, or since, it is due. */
function countdown(job) {
    const left = job.due_ms - now();

    return job.state === 'delayed' ? (left > 0 ? `due in ${duration(Math.max(1000, left))}` : 'due now')
        : job.state === 'dead' ? 'dead' : left > 0 ? job.state : `${job.state}; it was due ${duration(-left)} ago, ${moment(job.due_ms, now())}`;
}

export function show(place, {one: id, signal}) {
    const clock = el('p', {class: 'countdown', role: 'timer'}, '…');
    const what = el('div', {});
    const bar = el('div', {});
    const body = el('div', {});
    const past = el('div', {});
    const wrong = el('p', {class: 'wrong', role: 'alert'});
    let job = null;
    let seen = '';

    place.append(el('h1', {}, `Job ${id}`), clock, wrong, bar, section(null, what), body, past);

    async function load() {
        const history = get(['jobs', id, 'history'], {}, signal).catch(() => null);

        try {
            job = await get(['jobs', id], {}, signal);
        } catch (error) {
            if (!(error instanceof Refused) || error.status !== 404) {
                throw error;
            }
            job = null;
        }
        const events = (await history)?.events ?? [];
        const mark = JSON.stringify([job, events]);

        if (mark !== seen) {
            seen = mark;
            fill(events);
        }
    }

    function fill(events) {
        if (job) {
            bar.replaceChildren(actions(job, () => load().catch(() => {})));
            what.replaceChildren(told(job));
            body.replaceChildren(bodyView(job));
        } else {
            bar.replaceChildren();
            what.replaceChildren(el('p', {}, events.length > 0 ? 'It is gone: this is what is still known of it.' : 'There is no such job, and none is remembered.'));
            body.replaceChildren();
        }
        past.replaceChildren(...(events.length > 0 ? [section('What happened to it', timeline(events))] : []));
        tick();
    }

    function tick() {
        say(clock, job ? countdown(job) : 'gone');
    }
    const timer = setInterval(() => !document.hidden && seen && tick(), 1000);

    signal.addEventListener('abort', () => clearInterval(timer));
    every(2000, signal, load, error => {
        wrong.textContent = error?.message ?? '';
    });
}
