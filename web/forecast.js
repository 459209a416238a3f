/*
 * The future: how many jobs are due when, stacked by the topics that have the most of them, and
 * when they will be through at the pace of the consumers. A bar leads to its jobs.
 */
import {el, section, link, table} from './dom.js';
import {get, who, now} from './api.js';
import {every, past} from './live.js';
import {bars, SERIES} from './chart.js';
import {count, jobs, duration, fullMoment, moment, rate} from './format.js';
import {go, restate} from './router.js';
import {field} from './dialog.js';

const MINUTE = 60000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/* As fine as the server can tell: seconds for a minute, minutes for two hours, hours for 60 days. */
const RANGES = {
    minute: ['the next minute, by second', 1000, 60],
    hour: ['the next hour, by minute', MINUTE, 60],
    two: ['two hours, by 2 minutes', 2 * MINUTE, 60],
    day: ['the next day, by hour', HOUR, 24],
    week: ['a week, by 4 hours', 4 * HOUR, 42],
    month: ['a month, by day', DAY, 31],
    year: ['a year, by week', 7 * DAY, 52],
};

/* The counts of one reply by the steps of another. */
function spread(told, steps) {
    const counts = steps.map(() => 0);
    let at = 0;

    for (const step of told.steps) {
        while (at + 1 < steps.length && steps[at + 1].from <= step.from_ms) {
            at++;
        }
        counts[at] += step.count;
    }
    return counts;
}

async function ask(range, topic, signal) {
    const [, step, length] = RANGES[range];
    const from = Math.floor(now() / step) * step;
    const query = {from, to: from + step * length, step: `${step}ms`};
    const total = await get(['forecast'], {...query, topic}, signal);
    const steps = total.steps.map((one, i) => ({from: one.from_ms, to: total.steps[i + 1]?.from_ms ?? total.to_ms, values: []}));
    const result = {steps, step, series: [], fills: [], resolution: total.resolution_ms, approximate: total.approximate};
    let rest = total.steps.map(one => one.count);

    if (!topic && steps.length > 0) {
        const {topics, matched} = await get(['topics'], {sort: 'delayed', limit: SERIES - 1}, signal);
        const most = topics.filter(t => t.delayed > 0);
        const each = await Promise.all(most.map(t =>
            get(['forecast'], {...query, topic: t.name}, signal).then(told => spread(told, steps), () => steps.map(() => 0))));

        each.forEach((counts, k) => {
            if (counts.some(n => n > 0)) {
                result.series.push(most[k].name);
                result.fills.push(k);
                steps.forEach((step_, i) => step_.values.push(counts[i]));
                rest = rest.map((n, i) => Math.max(0, n - counts[i])); /* asked a moment later */
            }
        });
        if (matched <= topics.length && result.series.length > 0) { /* there are no others: that moment is all that is left */
            rest = rest.map(() => 0);
        }
    }
    if (topic || result.series.length === 0 || rest.some(n => n > 0)) {
        result.series.push(topic || (result.series.length > 0 ? 'others' : 'jobs'));
        result.fills.push(result.series.length > 1 ? SERIES - 1 : 0);
        steps.forEach((step_, i) => step_.values.push(rest[i]));
    }
    return result;
}

/* What is not through yet at the end of each step, if so many go out each second. */
export function drain(steps, ready, perSecond) {
    let left = ready;
    const result = {peak: ready, peakAt: steps[0]?.from, idleAt: null, left: []};

    for (const step of steps) {
        const seconds = (step.to - step.from) / 1000;
        const due = step.values.reduce((a, b) => a + b, 0);
        const before = left + due;

        left = Math.max(0, before - perSecond * seconds);
        if (left > result.peak) {
            result.peak = left;
            result.peakAt = step.to;
        }
        result.idleAt = left > 0 ? null
            : result.idleAt ?? (before > 0 ? step.from + before / perSecond * 1000 : step.from);
        result.left.push(Math.round(left));
    }
    result.end = left;
    return result;
}

function drainText(data, ready, perSecond) {
    if (!(perSecond > 0)) {
        return 'Nothing is going out at the moment: say how many jobs a second your consumers take, to see when they are through.';
    }
    const d = drain(data.steps, ready, perSecond);
    const last = data.steps.at(-1);

    if (d.end > 0) {
        return `At ${rate(perSecond)}, ${jobs(Math.round(d.end))} are still waiting at ${fullMoment(last.to)}; they take ${duration(d.end / perSecond * 1000)} more.`;
    }
    if (d.peak < 1) {
        return `At ${rate(perSecond)} nothing has to wait for longer than a step of this chart.`;
    }
    return `At ${rate(perSecond)} at most ${jobs(Math.round(d.peak))} wait, at ${fullMoment(d.peakAt)}; all are through by ${fullMoment(d.idleAt)}.`;
}

export function show(place, {query, signal}) {
    let range = Object.hasOwn(RANGES, query.range ?? '') ? query.range : 'hour';
    const topic = field({name: 'topic', label: 'Topic', value: query.topic ?? '', hint: who.all ? 'empty: all of them' : 'one of yours'});
    const choose = field({name: 'range', label: 'Range', kind: 'select', value: range, options: Object.entries(RANGES).map(([key, [text]]) => [key, text])});
    const pace = field({name: 'drain', label: 'Jobs handed out per second', kind: 'number', value: query.drain ?? '', hint: 'empty: as it is now'});
    const chart = bars({label: 'Jobs due, by time and topic', height: 300, pick: step =>
        go(['jobs'], {state: 'delayed', topic: topic.read(), due_from: step.from, due_to: step.to})});
    const through = el('p', {class: 'drain'});
    const note = el('p', {class: 'note'});
    const wrong = el('p', {class: 'wrong', role: 'alert'});
    const rows = table([
        {title: 'from', wide: true, cell: s => link(['jobs'], {state: 'delayed', topic: topic.read(), due_from: s.from, due_to: s.to}, fullMoment(s.from))},
        {title: 'to', cell: s => moment(s.to, s.from)},
        {title: 'due', number: true, cell: s => count(s.values.reduce((a, b) => a + b, 0))},
        {title: 'waiting at its end', number: true, cell: s => s.left === undefined ? '–' : count(s.left)},
    ], s => s.from, 'The same as a table');
    let again = new AbortController();

    place.append(el('h1', {}, 'Forecast'), el('form', {class: 'filter', onsubmit: event => event.preventDefault()},
        choose.node, topic.node, pace.node), wrong, section(null, chart.node, note),
        section('When will they be through?', through),
        el('details', {}, el('summary', {}, 'As a table'), rows.node));

    function begin() {
        again.abort();
        again = new AbortController();
        signal.addEventListener('abort', () => again.abort(), {signal: again.signal});
        restate(['forecast'], {range, topic: topic.read(), drain: pace.read()});
        every(range === 'minute' ? 1000 : 5000, again.signal, async inner => {
            const data = await ask(range, topic.read(), inner);
            const figures = await waiting(topic.read(), inner);
            const perSecond = pace.read() === '' ? figures.out : Number(pace.read());

            chart.fill(data);
            note.textContent = `Exact to ${duration(data.resolution)}.` + (data.approximate ? ' Estimates.' : '');
            through.textContent = drainText(data, figures.ready, perSecond);
            const left = perSecond > 0 ? drain(data.steps, figures.ready, perSecond).left : [];

            rows.fill(data.steps.map((step, i) => ({...step, left: left[i]})).filter(step => step.values.some(n => n > 0)),
                      'Nothing is due in this time.');
        }, error => {
            wrong.textContent = error?.message ?? '';
        });
    }
    choose.input.addEventListener('change', () => {
        range = choose.read();
        begin();
    });
    topic.input.addEventListener('change', begin);
    pace.input.addEventListener('change', begin);
    begin();
}

/* What waits now, and how much goes out. */
async function waiting(topic, signal) {
    if (topic) {
        const t = await get(['topics', topic], {}, signal);

        return {ready: t.ready, out: t.handed_per_s};
    }
    const stats = past.at(-1)?.stats;

    return {ready: stats?.ready ?? 0, out: stats?.handed_per_s ?? 0};
}
