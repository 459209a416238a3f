/*
 * Dead jobs, grouped by why they died. They come by time of death, a thousand at a time; groups
 * are of those that were read, and of all of them when somebody asks for that.
 */
import {el, link, table, button, section} from './dom.js';
import {get, can, now} from './api.js';
import {every} from './live.js';
import {count, jobs, when} from './format.js';
import {go} from './router.js';
import {field} from './dialog.js';
import {actionBar, kickAll, kickThese, cancelAll, kickJob} from './actions.js';

const PAGE = 1000;
const LISTED = 100;
const COUNTED = 100_000;
const REASONS = {
    retries: 'used up their attempts', expired: 'were not handed out in time (ttl)', buried: 'were buried',
    damaged: 'cannot be read any more',
};

export function show(place, {query, signal}) {
    const topic = field({name: 'topic', label: 'Topic', value: query.topic ?? ''});
    const groups = el('div', {class: 'groups'});
    const wrong = el('p', {class: 'wrong', role: 'alert'});
    const note = el('p', {class: 'note'});
    const forward = button('Next page', () => go(['dead'], {...query, cursor: forward.dataset.cursor}), {disabled: true});
    const first = button('First page', () => go(['dead'], {topic: query.topic}), {disabled: !query.cursor});
    const filter = {state: 'dead', topic: query.topic ?? ''};
    const list = table([
        {title: 'id', cell: j => link(['jobs', j.id], {}, j.id)},
        {title: 'topic', wide: true, cell: j => link(['topics', j.topic], {}, j.topic)},
        {title: 'key', wide: true, cell: j => j.key ?? ''},
        {title: 'why', cell: j => j.reason ?? 'not known'},
        {title: 'died', cell: j => j.dead_ms ? when(j.dead_ms, now()) : '–'},
        {title: 'attempts', number: true, cell: j => count(j.attempts)},
        {title: '', cell: j => can('admin') ? el('span', {'data-mark': j.id}, button('Bring it back …', () => kickJob(j).then(done => done && again()))) : ''},
    ], j => j.id, 'Dead jobs');
    const more = button('Group them all', countAll, {hidden: true});
    let told = {jobs: []};
    let counted = null; /* all of them, as they were */

    function fillGroups() {
        const reasons = new Map();

        for (const job of counted ?? told.jobs) {
            const key = `${job.reason ?? 'not known'}\n${job.topic}`;

            reasons.has(key) ? reasons.get(key).push(job) : reasons.set(key, [job]);
        }
        const mark = counted ? `all ${counted.length}` : [...reasons].map(([key, all]) => [key, ...all.map(job => job.id)].join(' ')).join('\n');

        if (groups.dataset.mark === mark) {
            return;
        }
        groups.dataset.mark = mark;
        groups.replaceChildren(...[...reasons].sort((a, b) => b[1].length - a[1].length).map(([key, all]) => {
            const [reason, name] = key.split('\n');

            return el('div', {class: 'group'}, el('b', {}, jobs(all.length)),
                el('p', {}, `${REASONS[reason] ?? `died: ${reason}`}, in `, link(['dead'], {topic: name}, name)),
                actionBar([['admin', 'Bring these back …', () => kickThese(all, `${REASONS[reason] ?? reason} in ${name}`, counted ? 'counted here' : 'on this page')]], again));
        }));
    }

    /* Page by page to the end, once: the server has no count by reason. */
    async function countAll() {
        let found = [];
        let cursor;

        more.disabled = true;
        try {
            do {
                const page = await get(['jobs'], {...filter, limit: PAGE, cursor}, signal);

                found = found.concat(page.jobs.map(({id, topic, reason}) => ({id, topic, reason})));
                cursor = page.cursor;
                more.textContent = `${jobs(found.length)} so far …`;
            } while (cursor && found.length < COUNTED);
            counted = found;
            more.textContent = cursor ? `The first ${jobs(found.length)} are grouped` : `All ${jobs(found.length)} are grouped`;
            fillGroups();
        } catch (error) {
            more.disabled = false;
            more.textContent = 'Group them all';
            if (!signal.aborted) {
                wrong.textContent = error.message;
            }
        }
    }

    async function load() {
        told = await get(['jobs'], {...filter, limit: PAGE, cursor: query.cursor}, signal);
        list.fill(told.jobs.slice(0, LISTED), told.cursor ? 'None among those looked at; there may be more on the next page.' : 'No job is dead.');
        fillGroups();
        more.hidden = !counted && !told.cursor && !query.cursor;
        forward.disabled = told.cursor === null;
        forward.dataset.cursor = told.cursor ?? '';
        note.textContent = `${jobs(told.jobs.length)} on this page` + (told.jobs.length > LISTED ? `, of which the first ${LISTED} are listed` : '') + (told.cursor ? '; there are more' : '');
    }

    /* Who has left the page need not hear that it failed. */
    function again() {
        if (counted) {
            counted = null;
            more.disabled = false;
            more.textContent = 'Group them all';
        }
        load().catch(() => {});
    }

    place.append(el('h1', {}, 'Dead jobs'),
        el('form', {class: 'filter', role: 'search', onsubmit: event => {
            event.preventDefault();
            go(['dead'], {topic: topic.read()});
        }}, topic.node, el('div', {class: 'field'}, el('button', {class: 'main'}, 'Show'))),
        query.topic ? actionBar([
            ['admin', `Redrive all dead of ${query.topic} …`, () => kickAll({topic: query.topic})],
            ['produce', `Cancel all dead of ${query.topic} …`, () => cancelAll(filter), true],
        ], again) : el('p', {class: 'note'}, 'Choose a topic to bring all its dead jobs back, or to drop them.'),
        wrong, groups, el('div', {class: 'buttons'}, more), section(null, list.node, note), el('div', {class: 'buttons'}, first, forward));
    every(5000, signal, load, error => {
        wrong.textContent = error?.message ?? '';
    });
}
