/*
 * Jobs that match a filter, by due time, page by page. The filter and the place in the list stand
 * in the address. What is done here to many jobs is done to all that match, not to the page.
 */
import {el, link, table, button} from './dom.js';
import {get, now} from './api.js';
import {every} from './live.js';
import {count, when, stateMark} from './format.js';
import {go} from './router.js';
import {field, toast} from './dialog.js';
import {actionBar, cancelAll, shiftAll, kickAll, isNarrow, describe} from './actions.js';

const PAGE = 100;
const FILTER = ['state', 'topic', 'tag', 'due_from', 'due_to'];

export function jobTable() {
    return table([
        {title: 'id', cell: j => link(['jobs', j.id], {}, j.id)},
        {title: 'topic', wide: true, cell: j => link(['topics', j.topic], {}, j.topic)},
        {title: 'key', wide: true, cell: j => j.key ?? ''},
        {title: 'tag', cell: j => j.tag ?? ''},
        {title: 'state', cell: j => stateMark(j.state)},
        {title: 'due', cell: j => when(j.due_ms, now())},
        {title: 'attempts', number: true, cell: j => count(j.attempts)},
        {title: 'priority', number: true, cell: j => count(j.priority)},
    ], j => j.id, 'Jobs');
}

export function show(place, {query, signal}) {
    const filter = Object.fromEntries(FILTER.map(name => [name, query[name] ?? '']));
    const fields = [
        field({name: 'state', label: 'State', kind: 'select', value: filter.state, options: [['', 'any'], 'delayed', 'ready', 'reserved', 'dead']}),
        field({name: 'topic', label: 'Topic', value: filter.topic}),
        field({name: 'tag', label: 'Tag', value: filter.tag}),
        field({name: 'due_from', label: 'Due from', kind: 'moment', value: filter.due_from ? Number(filter.due_from) : ''}),
        field({name: 'due_to', label: 'Due before', kind: 'moment', value: filter.due_to ? Number(filter.due_to) : ''}),
        field({name: 'named', label: 'Id, or key in the topic', value: ''}),
    ];
    const list = jobTable();
    const wrong = el('p', {class: 'wrong', role: 'alert'});
    const note = el('p', {class: 'note'});
    const forward = button('Next page', () => go(['jobs'], {...filter, cursor: forward.dataset.cursor}), {disabled: true});
    const first = button('First page', () => go(['jobs'], filter), {disabled: !query.cursor});
    const narrow = isNarrow(filter);

    async function find(event) {
        event.preventDefault();
        const given = Object.fromEntries(fields.map(one => [one.name, one.read()]));

        if (!given.named) {
            go(['jobs'], Object.fromEntries(FILTER.map(name => [name, given[name]])));
            return;
        }
        try {
            const job = given.topic ? await get(['topics', given.topic, 'keys', given.named]) : await get(['jobs', given.named]);

            go(['jobs', job.id]);
        } catch (error) {
            toast(/^\d+$/.test(given.named) || given.topic ? error.message : 'A key is found with its topic: fill in both', true);
        }
    }

    async function load() {
        const told = await get(['jobs'], {...filter, limit: PAGE, cursor: query.cursor}, signal);

        list.fill(told.jobs, told.cursor ? 'None among those looked at; there may be more on the next page.' : 'No job matches.');
        forward.disabled = told.cursor === null;
        forward.dataset.cursor = told.cursor ?? '';
        note.textContent = `${count(told.jobs.length)} on this page: ${describe(filter)}` + (told.cursor ? '; there are more' : '');
    }

    place.append(el('h1', {}, 'Jobs'),
        el('form', {class: 'filter', role: 'search', onsubmit: find}, fields.map(one => one.node),
           el('div', {class: 'field'}, el('button', {class: 'main'}, 'Show'))),
        narrow ? actionBar([
            filter.state !== 'reserved' && ['produce', 'Cancel all that match …', () => cancelAll(filter), true],
            (filter.state === '' || filter.state === 'delayed' || filter.state === 'ready') && ['produce', 'Shift all that match …', () => shiftAll(filter)],
            (filter.state === '' || filter.state === 'dead') && ['admin', 'Bring the dead that match back …', () => kickAll(filter)],
        ], () => load().catch(() => {})) : el('p', {class: 'note'}, 'Choose a topic, a tag or a time to do something to all jobs that match.'),
        wrong, list.node, note, el('div', {class: 'buttons'}, first, forward));
    every(5000, signal, load, error => {
        wrong.textContent = error?.message ?? '';
    });
}
