/*
 * Topics whose jobs are delivered instead of waiting for a consumer: to whom, how that goes, and
 * whether the other side is left alone for a while because it failed too often (the breaker).
 */
import {el, table, link} from './dom.js';
import {get, now} from './api.js';
import {every} from './live.js';
import {count, fullMoment, moment, duration} from './format.js';

const PAGE = 1000;
const PAGES = 20;

const where = d => d.url ?? (Array.isArray(d.brokers) ? d.brokers.join(', ') : d.brokers) ?? '';

/* closed: it is sent to; open: it is left alone, for so long; half-open: it is tried. */
function breaker({breaker: state, open_left_ms: left}) {
    return !state ? '–' : left ? `▲ ${state}, tried again in ${duration(left)}` : state === 'closed' ? 'closed (fine)' : state;
}

/* A value of any kind in words; what ends in _ms is a moment or a duration. */
function word(name, value) {
    if (name.endsWith('_ms') && typeof value === 'number') {
        return value > 1e11 ? fullMoment(value) : duration(value);
    }
    return typeof value === 'number' ? count(value)
        : typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/* What is known of the outlet of a topic, as names and values; null: it has none. */
export function outletFacts(topic) {
    const deliver = topic.policy.deliver;

    if (!deliver || deliver === 'pull') {
        return null;
    }
    const told = [...Object.entries(deliver), ...Object.entries(topic.outlet ?? {})];

    return told.filter(([, value]) => value !== null).map(([name, value]) => [name.replace(/_ms$/, '').replaceAll('_', ' '), word(name, value)]);
}

async function find(signal) {
    const found = [];
    let cursor;

    for (let page = 0; page < PAGES && cursor !== null; page++) {
        const told = await get(['topics'], {outlet: 'true', limit: PAGE, cursor}, signal);

        found.push(...told.topics.filter(topic => outletFacts(topic)));
        cursor = told.cursor;
    }
    return found;
}

export function show(place, {signal}) {
    const list = table([
        {title: 'topic', wide: true, cell: t => link(['topics', t.name], {}, t.name)},
        {title: 'type', cell: t => t.policy.deliver.type},
        {title: 'to', wide: true, cell: t => where(t.policy.deliver)},
        {title: 'breaker', cell: t => breaker(t.outlet ?? {})},
        {title: 'delivered', number: true, cell: t => count(t.outlet?.delivered)},
        {title: 'failed', number: true, cell: t => count(t.outlet?.failed)},
        {title: 'on the way', number: true, cell: t => count(t.outlet?.in_flight)},
        {title: 'ready', number: true, cell: t => count(t.ready)},
        {title: 'dead', number: true, cell: t => count(t.dead)},
        {title: 'last failure', wide: true, cell: t => t.outlet?.last_error ? `${moment(t.outlet.last_error_ms, now())}: ${t.outlet.last_error}` : 'none'},
    ], t => t.name, 'Outlets');

    place.append(el('h1', {}, 'Outlets'), list.node, el('p', {class: 'note'},
        'A topic gets an outlet by “Deliver to” in its policy. Secrets are never shown.'));
    every(10000, signal, async () => list.fill(await find(signal), 'No topic has an outlet: consumers pull.'));
}
