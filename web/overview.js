/* How it goes, at a glance: what there is, what comes and goes, how late, how full. */
import {el, tile, section, href, table, link} from './dom.js';
import {get, who, now} from './api.js';
import {every, figures, past} from './live.js';
import {bars, lines} from './chart.js';
import {count, short, rate, duration, bytes, when} from './format.js';
import {go} from './router.js';

const TOPICS = 8;

export function show(place, {signal}) {
    const states = ['delayed', 'ready', 'reserved', 'dead'];
    const counts = states.map(state => tile(state, state === 'dead' ? href(['dead']) : href(['jobs'], {state}), state));
    const wait = tile('oldest ready', href(['topics'], {sort: 'oldest'}));
    const late = tile('lateness p99');
    const flow = tile('in and out');
    const disk = tile('disk', href(['storage']));
    const memory = tile('memory', href(['storage']));
    const server = tile('engine', href(['config']));
    const rates = lines({label: 'Jobs a second', names: ['in', 'out'], print: n => short(Number(n.toFixed(2)))});
    const lateness = lines({label: 'Lateness: became ready after due', names: ['p50', 'p99'], print: ms => duration(Number(ms.toFixed(2)))});
    const ahead = bars({label: 'Jobs due in the next hour, by minute', height: 150, pick: step =>
        go(['jobs'], {state: 'delayed', due_from: step.from, due_to: step.to})});
    const busy = topicTable();

    place.append(el('h1', {}, 'Overview'),
        el('div', {class: 'tiles'}, counts.map(t => t.node), wait.node, who.all ? [late.node, flow.node, disk.node, memory.node, server.node] : null),
        who.all ? section('The next hour', ahead.node) : null,
        who.all ? el('div', {class: 'pair'}, section(null, rates.node), section(null, lateness.node)) : null,
        section('Topics with the most delayed jobs', busy.node, el('p', {}, link(['topics'], {}, 'All topics'))));

    figures(signal, stats => {
        states.forEach((state, i) => counts[i].set(short(stats[state]), stats[state] >= 10000 ? count(stats[state]) : ''));
        late.set(duration(stats.late_p99_us / 1000), `p50 ${duration(stats.late_p50_us / 1000)}, last minutes`);
        flow.set(`${rate(stats.pushed_per_s)}`, `in; ${rate(stats.handed_per_s)} out, ${count(stats.waiting)} waiting`);
        if (stats.store) {
            disk.set(bytes(stats.store.disk_bytes), `${bytes(stats.store.live_bytes)} alive`);
        } else {
            disk.set('in Redis', `${count(stats.redis.servers)} servers, ${count(stats.redis.nodes)} nodes of tarry`);
        }
        memory.set(bytes(stats.resident_bytes), stats.memory.limit ? `of ${bytes(stats.memory.limit)}` : '');
        server.set(stats.engine ?? 'local', `sync ${stats.sync}; up ${duration(stats.uptime_ms)}`);
        rates.fill(past.map(({at, stats: s}) => ({at, values: [s.pushed_per_s, s.handed_per_s]})));
        lateness.fill(past.map(({at, stats: s}) => ({at, values: [s.late_p50_us / 1000, s.late_p99_us / 1000]})));
    });
    every(4000, signal, async () => {
        const oldest = (await get(['topics'], {sort: 'oldest', limit: 1}, signal)).topics[0];

        wait.set(oldest?.oldest_ready_ms === undefined ? 'none' : duration(oldest.oldest_ready_ms),
                 oldest?.oldest_ready_ms === undefined ? 'nothing waits' : `in ${oldest.name}`);
        busy.fill((await get(['topics'], {sort: 'delayed', limit: TOPICS}, signal)).topics, 'There is no topic yet: push a job.');
        if (!who.all) {
            await sumUp(counts, states, signal);
        }
    });
    if (!who.all) {
        return; /* there is no forecast of some topics together; each has its own */
    }
    every(10000, signal, async () => {
        const told = await get(['forecast'], {step: '1m'}, signal);

        ahead.fill({series: ['jobs'], step: 60000, steps: told.steps.map((step, i) => ({
            from: step.from_ms, to: told.steps[i + 1]?.from_ms ?? told.to_ms, values: [step.count]}))});
    });
}

/* A token for some topics only: what they have together, of the first thousand. */
async function sumUp(counts, states, signal) {
    const {topics} = await get(['topics'], {limit: 1000}, signal);

    states.forEach((state, i) => {
        const sum = topics.reduce((a, topic) => a + topic[state], 0);

        counts[i].set(short(sum), 'in your topics');
    });
}

export function topicTable() {
    return table([
        {title: 'topic', wide: true, cell: t => link(['topics', t.name], {}, t.name)},
        {title: 'delayed', number: true, cell: t => count(t.delayed)},
        {title: 'ready', number: true, cell: t => count(t.ready)},
        {title: 'reserved', number: true, cell: t => count(t.reserved)},
        {title: 'dead', number: true, cell: t => count(t.dead)},
        {title: 'in', number: true, cell: t => rate(t.pushed_per_s)},
        {title: 'out', number: true, cell: t => rate(t.handed_per_s)},
        {title: 'late p99', number: true, cell: t => duration(t.late_p99_ms)},
        {title: 'oldest ready', number: true, cell: t => t.oldest_ready_ms === undefined ? '–' : duration(t.oldest_ready_ms)},
        {title: 'next due', cell: t => t.next_due_ms ? when(t.next_due_ms, now()) : '–'},
        {title: '', cell: flags},
    ], t => t.name, 'Topics');
}

/* What is special about a topic, in words. */
export function flags(t) {
    const paused = t.policy?.paused;
    const what = typeof paused === 'object' ? paused.what : paused;
    const breaker = t.outlet?.breaker;
    const words = [what && what !== 'no' ? `paused (${what})` : t.tube_paused_ms ? 'paused (tube)' : null, t.policy?.deliver?.type,
                   breaker && breaker !== 'closed' ? `outlet ${breaker}` : null];

    return words.filter(Boolean).join(', ');
}
