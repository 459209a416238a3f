/* What is on disk and in memory, how the disk or Redis does, who is connected; all from the statistics. */
import {el, facts, section} from './dom.js';
import {figures} from './live.js';
import {count, bytes, duration, rate} from './format.js';

const us = n => duration(n / 1000);
const most = n => n === null ? 'no limit' : bytes(n);

function health({store, damage}) {
    return [
        ['health', damage.damaged ? `DAMAGED: ${count(damage.jobs)} jobs, ${count(damage.places)} places; see the log and tarry check` : 'nothing is known to be damaged'],
        ['takes jobs', store.draining ? 'no: draining' : store.refusing ? 'no: the disk is nearly full' : 'yes'],
        ['checked by the scrubber', `${bytes(damage.scrub_done_bytes)} of ${bytes(damage.scrub_of_bytes)} in this round`],
        ['mended', count(damage.mended)], ['in quarantine', count(damage.quarantined)],
    ];
}

function disk({store, sync}) {
    return [
        ['files', bytes(store.disk_bytes)], ['of that alive', bytes(store.live_bytes)], ['sync', sync],
        ['commits', `${count(store.commits)}; 99 of 100 within ${us(store.commit_p99_us)}, ${us(store.commit_p99_busy_us)} while others write`],
        ['log files', `${count(store.slots)} of ${bytes(store.slot_bytes)}, ${count(store.slots_free)} free`],
        ['groups of run files', `${count(store.groups)} with ${count(store.in_runs)} jobs`],
        ['checkpoints, promotions, merges', `${count(store.checkpoints)}, ${count(store.promotions)}, ${count(store.merges)}`],
        ['to be promoted', `${count(store.promotion_debt)} jobs`], ['to be cleared away', `${count(store.purging)} purged jobs`],
        ['requests that wait', count(store.stalled_requests)], ['backups', count(store.backups)],
    ];
}

/* With --engine redis, instead of health and disk. */
function redis({redis: r}) {
    return [
        ['this node', r.node], ['nodes that live', count(r.nodes)], ['slots that it looks after', count(r.slots_owned)],
        ['servers', `${count(r.servers)}, ${count(r.connections)} connections`], ['topics known here', count(r.topics)],
        ['commands', `${count(r.calls)}; ${count(r.repeats)} once more, ${count(r.redirects)} redirected, ${count(r.losses)} without an answer`],
        ['requests in a script', r.batches ? (r.items / r.batches).toFixed(1) : '-'],
        ['questions for jobs', `${count(r.takes)}, ${count(r.takes_empty)} in vain`],
        ['given up', `${count(r.given_up)}; of ${count(r.unsure)} it is not known what came`],
        ['sent and received', `${bytes(r.bytes_out)}, ${bytes(r.bytes_in)}`],
        r.deaf && ['wake-ups', 'do not come: topics are asked each second'],
    ];
}

function memory({memory: m, store, resident_bytes: resident}) {
    return [
        ['process', bytes(resident)], ['limit', most(m.limit)], ['engine', `${bytes(m.engine_used)} of ${most(m.engine_limit)}`],
        ['connections', `${bytes(m.connections_used)} of ${most(m.connections_limit)}`],
        ...!store ? [] : [
            ['jobs not in memory', count(store.far), 'they come back before they are due'], ['keys', count(store.keys)],
            ['topics with too many due jobs', count(store.parked_topics)], ['loader behind by', duration(store.loader_lag_ms)],
        ],
        m.refusing && ['pushes', 'are refused for want of memory'],
    ];
}

function server(s) {
    const refused = Object.values(s.refused).flatMap(Object.values).reduce((a, b) => a + b, 0);

    return [
        ['version', s.version], ['process', String(s.pid)], ['up for', duration(s.uptime_ms)],
        ['CPU', `${duration(s.cpu_user_ms)} user, ${duration(s.cpu_system_ms)} system`],
        ['longest round of the loop', us(s.loop_longest_us)], ['rounds over 5 ms', `${count(s.loop_stalls)} of ${count(s.loop_rounds)}`],
        ['connections', `${count(s.connections.http)} HTTP, ${count(s.connections.beanstalk)} beanstalk, at most ${count(s.connections.most)}`],
        ['clients refused', count(refused)], ['HTTP requests', count(s.http_requests)],
        ['tokens', `${count(s.auth.tokens)}; ${count(s.auth.failed)} wrong, ${count(s.auth.denied)} not allowed`],
        s.store && ['clock steps', count(s.store.clock_steps)],
    ];
}

function work(s) {
    return [
        ['pushed', count(s.pushed)], ['finished or cancelled', count(s.deleted)], ['leases that ran out', count(s.timeouts)],
        ['dead that were dropped', count(s.dropped)], ['in', rate(s.pushed_per_s)], ['out', rate(s.handed_per_s)],
        ['consumers waiting', count(s.waiting)],
    ];
}

export function show(place, {signal}) {
    const all = [['Health', health, 'store'], ['Disk', disk, 'store'], ['Redis', redis, 'redis'], ['Memory', memory], ['Since the start', work], ['Server', server]];
    const pair = el('div', {class: 'pair'});
    let parts = null;

    place.append(el('h1', {}, 'Storage'), pair);
    figures(signal, stats => {
        if (parts === null) {
            parts = all.filter(([, , needs]) => !needs || stats[needs]).map(([title, tell]) => ({title, tell, box: el('div', {})}));
            pair.append(...parts.map(({title, box}) => section(title, box)));
        }
        parts.forEach(({tell, box}) => box.replaceChildren(facts(tell(stats))));
    });
}
