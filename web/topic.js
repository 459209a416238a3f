/* One topic: its figures, what it has ahead, its outlet, and its policy as a form. */
import {el, tile, section, href, link, facts} from './dom.js';
import {ask, get, can, now, Refused} from './api.js';
import {every} from './live.js';
import {bars} from './chart.js';
import {count, short, rate, duration, durationText, fullMoment, numberOf} from './format.js';
import {go} from './router.js';
import {field, question, toast} from './dialog.js';
import {actionBar, pushJob, takeJob, pauseTopic, resumeTopic, purgeTopic, deleteTopic, kickAll} from './actions.js';
import {outletFacts} from './outlets.js';

/* name, label, hint; how it is told; a number goes as one. later: fixed by the push. */
const FIELDS = [
    {name: 'ttr', later: true, label: 'Time to run', hint: 'how long a consumer may hold a job', told: p => durationText(p.ttr_ms)},
    {name: 'retries', later: true, label: 'Retries', hint: 'attempts after the first; -1: no end', told: p => p.retries, number: true},
    {name: 'backoff', later: true, label: 'Backoff', hint: '4m,10m,1h or exp(base,factor,max,jitter)', told: p => p.backoff},
    {name: 'ttl', later: true, label: 'Time to live', hint: 'counted from due', told: p => durationText(p.ttl_ms)},
    {name: 'rate', label: 'Rate', hint: 'handed out per second at most', told: p => p.rate, number: true},
    {name: 'burst', label: 'Burst', hint: 'at once after a rest', told: p => p.burst, number: true},
    {name: 'in_flight', label: 'In flight', hint: 'reserved at once at most', told: p => p.in_flight, number: true},
    {name: 'max_jobs', label: 'Jobs at most', hint: 'pushes beyond are refused', told: p => p.max_jobs, number: true},
    {name: 'max_bytes', label: 'Bytes at most', hint: 'of all bodies', told: p => p.max_bytes, number: true},
    {name: 'dead_keep', label: 'Keep the dead', hint: 'how long', told: p => durationText(p.dead_keep_ms)},
    {name: 'dead_max', label: 'Dead at most', hint: 'the oldest go', told: p => p.dead_max, number: true},
    {name: 'jitter', later: true, label: 'Jitter', hint: 'spreads due times, never earlier', told: p => durationText(p.jitter_ms)},
    {name: 'history', label: 'History', kind: 'select', options: ['off', 'brief', 'full'], told: p => p.history},
    {name: 'deliver', label: 'Deliver to', kind: 'area', hint: 'an outlet, as JSON; empty: consumers pull. Secrets and headers are not shown: whoever changes it writes them anew', json: true,
     told: p => p.deliver?.type ? JSON.stringify(deliverAsGiven(p.deliver), null, 2) : ''},
];

/* As it can be set again; what is secret is not told, and has to be written anew. */
function deliverAsGiven({timeout_ms: timeout, secret_count, headers, ...rest}) {
    return timeout === undefined ? rest : {...rest, timeout: durationText(timeout)};
}

/* For which jobs a change of these fields holds. */
function holdsFor(changed) {
    const names = list => list.map(f => f.label).join(', ');
    const later = changed.filter(f => f.later);
    const rest = changed.filter(f => !f.later);

    return [
        rest.length > 0 && `${names(rest)}: at once, also for jobs that are there.`,
        later.length > 0 && `${names(later)}: for jobs that are pushed from now on.`,
    ].filter(Boolean);
}

/* What is hidden would be stored as it is shown, or be gone. */
function checkDeliver(text) {
    if (text.includes('***')) {
        throw new Refused(400, {message: 'deliver has *** where something is hidden: write it anew', field: 'deliver'});
    }
}

function policyForm(name, policy, saved) {
    const before = Object.fromEntries(FIELDS.map(f => [f.name, String(f.told(policy) ?? '')]));
    const list = FIELDS.map(f => ({...f, ...field({...f, value: before[f.name]})}));
    const locked = !can('admin');
    const hides = policy.deliver?.secret_count || policy.deliver?.headers;

    list.forEach(f => {
        f.input.disabled = locked;
    });

    async function save(event) {
        event.preventDefault();
        const changed = list.filter(f => f.changed());

        if (changed.length === 0) {
            toast('Nothing was changed');
            return;
        }
        const done = await question({
            title: `Change the policy of ${name}`,
            says: [el('ul', {}, changed.map(f => el('li', {}, `${f.label}: ${before[f.name] || 'none'} → ${f.read() || 'the default'}`))),
                   ...holdsFor(changed),
                   hides && changed.some(f => f.json) ? 'The outlet has secrets or headers, which are not shown: they are gone unless you have written them anew.' : null].filter(Boolean),
            action: 'Change it',
            async run() {
                const json = {};

                changed.filter(f => f.json).forEach(f => checkDeliver(f.read()));

                for (const f of changed) {
                    const text = f.read();

                    try {
                        json[f.name] = text === '' ? null : f.json ? JSON.parse(text) : f.number ? numberOf(text) : text;
                    } catch {
                        json[f.name] = text;
                    }
                }
                await ask('PATCH', ['topics', name], {json});
                return `The policy of ${name} is changed`;
            },
        });

        if (done) {
            saved();
        }
    }
    return el('form', {class: 'policy', onsubmit: save}, el('div', {class: 'fields'}, list.map(f => f.node)),
        locked ? null : el('div', {class: 'buttons'}, el('button', {class: 'main'}, 'Save …')));
}

// What a topic that is paused says of it; empty: it is not.
function pauseText({policy: {paused}, tube_paused_ms: tube}) {
    if (paused === 'no') {
        return tube ? `Paused by pause-tube: no hand-outs for ${duration(tube)}` : '';
    }
    return `Paused: ${{in: 'no pushes', out: 'no hand-outs', both: 'no pushes, no hand-outs'}[paused.what ?? paused]}`
        + (paused.until_ms ? ` until ${fullMoment(paused.until_ms)}` : '');
}

export function show(place, {one: name, signal}) {
    const states = ['delayed', 'ready', 'reserved', 'dead'];
    const counts = states.map(state => tile(state, href(['jobs'], {topic: name, state}), state));
    const wait = tile('oldest ready');
    const late = tile('lateness p99');
    const flow = tile('in and out');
    const next = tile('next due');
    const chart = bars({label: `Jobs of ${name} due in the next hour`, height: 150, pick: step =>
        go(['jobs'], {state: 'delayed', topic: name, due_from: step.from, due_to: step.to})});
    const paused = el('p', {class: 'notice', hidden: true});
    const wrong = el('p', {class: 'wrong', role: 'alert'});
    const form = el('div', {});
    const outlet = el('div', {});
    let latest = null;

    const again = () => {
        latest = null;
        form.replaceChildren();
        get(['topics', name], {}, signal).then(fill, fail);
    };
    const left = () => get(['topics', name], {}, signal).then(fill, error => {
        if (error.status === 404) {
            go(['topics']);
        }
    });
    const actions = actionBar([
        ['produce', 'Push …', () => pushJob(name)],
        ['consume', 'Take a job …', () => takeJob(name)],
        ['admin', 'Pause …', () => pauseTopic(name)],
        ['admin', 'Resume …', () => resumeTopic(name)],
        ['admin', 'Bring the dead back …', () => kickAll({topic: name})],
        ['admin', 'Purge …', () => purgeTopic(name), true],
        ['admin', 'Delete …', () => deleteTopic(name), true],
    ], left);

    place.append(el('h1', {}, name), paused, wrong, el('div', {class: 'tiles'}, counts.map(t => t.node), wait.node, late.node, flow.node, next.node),
        actions, section('The next hour', chart.node, el('p', {}, link(['forecast'], {topic: name, range: 'day'}, 'Further ahead'), ' · ',
            link(['jobs'], {topic: name}, 'All its jobs'))), outlet, section('Policy', form));

    function fail(error) {
        wrong.textContent = error?.message ?? '';
    }

    function fill(t) {
        states.forEach((state, i) => counts[i].set(short(t[state]), t[state] >= 10000 ? count(t[state]) : ''));
        wait.set(t.oldest_ready_ms === undefined ? 'none' : duration(t.oldest_ready_ms), `${count(t.waiting)} consumers waiting`);
        late.set(duration(t.late_p99_ms), `p50 ${duration(t.late_p50_ms)}`);
        flow.set(rate(t.pushed_per_s), `in; ${rate(t.handed_per_s)} out`);
        next.set(t.next_due_ms ? duration(Math.max(0, t.next_due_ms - now())) : 'none', t.next_due_ms ? fullMoment(t.next_due_ms) : '');
        paused.textContent = pauseText(t);
        paused.hidden = paused.textContent === '';
        if (JSON.stringify(t.policy) !== latest && !form.contains(document.activeElement)) {
            latest = JSON.stringify(t.policy);
            form.replaceChildren(policyForm(name, t.policy, again));
        }
        const told = outletFacts(t);

        outlet.replaceChildren(...(told ? [section('Outlet', facts(told))] : []));
    }
    every(2000, signal, async () => fill(await get(['topics', name], {}, signal)), fail);
    every(10000, signal, async () => {
        const told = await get(['forecast'], {topic: name, step: '1m'}, signal);

        chart.fill({series: [name], step: 60000, steps: told.steps.map((step, i) => ({
            from: step.from_ms, to: told.steps[i + 1]?.from_ms ?? told.to_ms, values: [step.count]}))});
    });
}
