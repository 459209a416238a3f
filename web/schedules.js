/*
 * Recurring jobs: what there is, when each happens next, and a form whose effect is told by the
 * server (dry_run) before it is saved.
 */
import {el, link, table, button, section, facts} from './dom.js';
import {ask, get, post, can, now, Refused} from './api.js';
import {every} from './live.js';
import {count, when, fullMoment, durationText, away, numberOf} from './format.js';
import {go} from './router.js';
import {field, question, explain, values, toast} from './dialog.js';
import {actionBar} from './actions.js';

const PAGE = 100;

const rule = s => s.cron ? `${s.cron} (${s.tz})` : s.every ? `every ${s.every}` : `${s.after} after the last has ended`;

/* ---- the form ---- */

const KINDS = [['cron', 'by a cron expression'], ['every', 'at a fixed rate'], ['after', 'so long after the last has ended']];

function fieldsOf(s) {
    const kind = s.cron || !s.name ? 'cron' : s.every ? 'every' : 'after';
    const zones = el('datalist', {id: 'zones'}, (Intl.supportedValuesOf?.('timeZone') ?? []).map(zone => el('option', {value: zone})));

    return {zones, list: [
        field({name: 'name', label: 'Name', value: s.name ?? '', needed: true}),
        field({name: 'topic', label: 'Topic', value: s.topic ?? '', needed: true}),
        field({name: 'kind', label: 'It happens', kind: 'select', options: KINDS, value: kind}),
        field({name: 'rule', label: 'Expression or duration', value: s[kind] ?? '0 9 * * MON-FRI', needed: true,
               hint: 'minute hour day month weekday, or @daily; or 10m'}),
        field({name: 'tz', label: 'Time zone', value: s.tz ?? '', list: 'zones', hint: 'of cron; empty: UTC'}),
        field({name: 'start', label: 'Not before', kind: 'moment', value: s.start_ms ?? ''}),
        field({name: 'end', label: 'Only before', kind: 'moment', value: s.end_ms ?? ''}),
        field({name: 'limit', label: 'Times at most', kind: 'number', value: s.limit ?? ''}),
        field({name: 'jitter', label: 'Jitter', value: durationText(s.jitter_ms)}),
        field({name: 'overlap', label: 'While the last lives', kind: 'select', options: ['skip', 'queue', 'allow'], value: s.overlap ?? 'skip'}),
        field({name: 'missed', label: 'If some were missed', kind: 'select', options: ['once', 'all', 'skip'], value: s.missed ?? 'once'}),
        field({name: 'priority', label: 'Priority', kind: 'number', value: s.priority ?? ''}),
        field({name: 'ttr', label: 'Time to run', value: durationText(s.ttr_ms)}),
        field({name: 'ttl', label: 'Time to live', value: durationText(s.ttl_ms)}),
        field({name: 'tag', label: 'Tag', value: s.tag ?? '', raw: true}),
        field({name: 'retries', label: 'Retries', kind: 'number', value: s.retries ?? ''}),
        field({name: 'backoff', label: 'Backoff', value: s.backoff ?? ''}),
        field({name: s.body_base64 !== undefined ? 'body_base64' : 'body', label: s.body_base64 !== undefined ? 'Body, in base64' : 'Body', kind: 'area',
               value: s.body ?? s.body_base64 ?? ''}),
    ]};
}

/* As the API wants it. */
function definition({name, kind, rule: text, ...rest}) {
    const json = {...rest, [kind]: text};

    for (const key of Object.keys(json)) {
        if (json[key] === '') {
            delete json[key];
        } else if (['limit', 'priority', 'retries'].includes(key)) {
            json[key] = numberOf(json[key]);
        }
    }
    return {name, json};
}

/* How a zone writes a moment; null for one that the browser does not know. */
function clockOf(zone) {
    try {
        return zone ? new Intl.DateTimeFormat('en-GB', {timeZone: zone, dateStyle: 'medium', timeStyle: 'long'}) : null;
    } catch {
        return null;
    }
}

function times(list, zone) {
    const local = clockOf(zone);

    return list.length === 0 ? el('p', {}, 'It will not happen: there is no such time.')
        : el('ol', {class: 'times'}, list.map(one => el('li', {}, fullMoment(one.due_ms), el('small', {}, ` ${away(one.due_ms, now())}`
            + (local ? `; there ${local.format(one.due_ms)}` : '')))));
}

/* The schedule of that name, or null. */
async function find(name) {
    try {
        return await get(['schedules', name]);
    } catch (error) {
        if (error instanceof Refused && error.status === 404) {
            return null;
        }
        throw error;
    }
}

function edit(place, schedule, saved) {
    const {list, zones} = fieldsOf(schedule);
    const preview = el('div', {class: 'preview', role: 'status'});
    const wrong = el('p', {class: 'wrong', role: 'alert'});
    const errorAt = error => explain(Object.assign(error, {field: ['cron', 'every', 'after'].includes(error.field) ? 'rule' : error.field}), list, wrong);

    async function look() {
        const {name, json} = definition(values(list));

        wrong.textContent = '';
        list.forEach(one => one.input.removeAttribute('aria-invalid'));
        try {
            const told = await ask('PUT', ['schedules', name || 'preview'], {json: {...json, dry_run: true}});

            preview.replaceChildren(el('h3', {}, 'It would happen'), times(told.next, json.tz));
            return told;
        } catch (error) {
            preview.replaceChildren();
            errorAt(error);
            return null;
        }
    }

    async function save(event) {
        event.preventDefault();
        await submit().catch(errorAt);
    }

    async function submit() {
        const {name, json} = definition(values(list));
        const told = await look();
        const there = told ? await find(name) : null;
        const other = there && schedule.name !== name; /* not the one that is edited */

        if (told && await question({
            title: `${other ? 'Replace' : there ? 'Change' : 'Make'} the schedule ${name}`,
            says: [other ? `There is one of this name: ${rule(there)}, in ${there.topic}. It is no more after this.` : null,
                   `It makes a job in ${json.topic}; the first times:`, times(told.next.slice(0, 3), json.tz),
                   there ? 'If something is changed, it begins anew: what it has counted is 0 again.' : null].filter(Boolean),
            action: other ? 'Replace it' : 'Save', danger: Boolean(other),
            async run() {
                const made = await ask('PUT', ['schedules', name], {json});

                return made.next ? `Saved; next ${fullMoment(made.next_ms)}` : 'Saved';
            },
        })) {
            saved();
        }
    }
    place.replaceChildren(el('form', {class: 'panel', onsubmit: save}, el('div', {class: 'fields'}, list.map(one => one.node)), zones, wrong, preview,
        el('div', {class: 'buttons'}, button('Close', () => place.replaceChildren()), button('Preview', look), el('button', {class: 'main'}, 'Save …'))));
    list[0].input.focus();
}

/* ---- one ---- */

function act(s, what, title, says, action, danger) {
    return question({title: `${title} ${s.name}`, says: [says], action, danger, async run() {
        if (what === 'delete') {
            await ask('DELETE', ['schedules', s.name]);
            return `${s.name} has ended`;
        }
        const told = await post(['schedules', s.name, what]);

        return what === 'run' ? `Made job ${told.id}` : what === 'pause' ? `${s.name} is paused` : `${s.name} goes on; next ${told.next_ms ? fullMoment(told.next_ms) : 'never'}`;
    }});
}

function detail(place, s, next, again) {
    place.replaceChildren(section(s.name, facts([
        ['topic', link(['topics', s.topic], {}, s.topic)], ['when', rule(s)], ['state', s.paused ? 'paused' : 'runs'],
        ['happened', `${count(s.fired)} times` + (s.limit ? ` of ${count(s.limit)}` : '')], ['skipped', count(s.skipped)], ['waiting', count(s.waiting)],
        s.last_ms && ['last', fullMoment(s.last_ms)], s.job && ['its job', link(['jobs', s.job], {}, s.job)],
        ['while the last lives', s.overlap], ['if some were missed', s.missed], s.trouble && ['trouble', s.trouble],
    ]), actionBar([
        ['admin', 'Edit …', async () => edit(place, s, again)],
        ['admin', 'Run now …', () => act(s, 'run', 'Run', `One more job in ${s.topic}, due now. It counts neither for the limit nor for the overlap.`, 'Run now')],
        s.paused ? ['admin', 'Resume …', () => act(s, 'resume', 'Resume', 'It goes on with the next time; those that went by are not made up for.', 'Resume')]
            : ['admin', 'Pause …', () => act(s, 'pause', 'Pause', 'No more jobs until it is resumed. Those that were made stay.', 'Pause')],
        ['admin', 'Delete …', () => act(s, 'delete', 'Delete', 'No more jobs. Those that were made stay.', 'Delete the schedule', true), true],
    ], again), el('h3', {}, 'Next'), s.paused ? el('p', {}, 'It is paused.') : times(next, s.tz && s.tz !== 'UTC' ? s.tz : null)));
}

/* ---- all ---- */

export function show(place, {query, signal}) {
    const pane = el('div', {class: 'pane'});
    const wrong = el('p', {class: 'wrong', role: 'alert'});
    const forward = button('Next page', () => go(['schedules'], {cursor: forward.dataset.cursor}), {disabled: true});
    const list = table([
        {title: 'name', wide: true, cell: s => el('span', {'data-mark': s.name}, button(s.name, () => open(s.name), {class: 'text'}))},
        {title: 'topic', wide: true, cell: s => link(['topics', s.topic], {}, s.topic)},
        {title: 'when', wide: true, cell: rule},
        {title: 'next', cell: s => s.paused ? 'paused' : s.next_ms ? when(s.next_ms, now()) : s.job ? 'when its job has ended' : 'never again'},
        {title: 'happened', number: true, cell: s => count(s.fired)},
        {title: 'skipped', number: true, cell: s => count(s.skipped)},
        {title: '', cell: s => s.trouble ?? ''},
    ], s => s.name, 'Schedules');

    async function open(name) {
        try {
            const [s, told] = await Promise.all([get(['schedules', name], {}, signal), get(['schedules', name, 'next'], {}, signal)]);

            detail(pane, s, told.next, () => again(name));
            pane.scrollIntoView({block: 'nearest'});
        } catch (error) {
            toast(error.message, true);
        }
    }

    async function again(name) {
        try {
            await load();
            const s = await get(['schedules', name], {}, signal);
            const told = await get(['schedules', name, 'next'], {}, signal);

            detail(pane, s, told.next, () => again(name));
        } catch {
            pane.replaceChildren();
        }
    }

    async function load() {
        const told = await get(['schedules'], {limit: PAGE, cursor: query.cursor}, signal);

        list.fill(told.schedules, 'There is no schedule.');
        forward.disabled = told.cursor === null;
        forward.dataset.cursor = told.cursor ?? '';
    }
    place.append(el('h1', {}, 'Schedules'),
        can('admin') ? el('div', {class: 'actions'}, button('New schedule …', () => edit(pane, {}, () => {
            pane.replaceChildren();
            load().catch(() => {});
        }))) : null, pane, wrong, list.node, el('div', {class: 'buttons'}, forward));
    every(5000, signal, load, error => {
        wrong.textContent = error?.message ?? '';
    });
}
