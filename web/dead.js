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

const ALL = 'Group them all';

function deadTable(done) {
    const back = j => button('Bring it back …', () => kickJob(j).then(did => did && done()));

    return table([
        {title: 'id', cell: j => link(['jobs', j.id], {}, j.id)},
        {title: 'topic', wide: true, cell: j => link(['topics', j.topic], {}, j.topic)},
        {title: 'key', wide: true, cell: j => j.key ?? ''},
        {title: 'why', cell: j => j.reason ?? 'not known'},
        {title: 'died', cell: j => j.dead_ms ? when(j.dead_ms, now()) : '–'},
        {title: 'attempts', number: true, cell: j => count(j.attempts)},
        {title: '', cell: j => can('admin') ? el('span', {'data-mark': j.id}, back(j)) : ''},
    ], j => j.id, 'Dead jobs');
}

/* By why they died, and in which topic. */
function byReason(list) {
    const reasons = new Map();

    for (const job of list) {
        const key = `${job.reason ?? 'not known'}\n${job.topic}`;

        reasons.has(key) ? reasons.get(key).push(job) : reasons.set(key, [job]);
    }
    return reasons;
}

function groupNode(key, all, where, done) {
    const [reason, name] = key.split('\n');
    const what = `${REASONS[reason] ?? reason} in ${name}`;

    return el('div', {class: 'group'}, el('b', {}, jobs(all.length)),
        el('p', {}, `${REASONS[reason] ?? `died: ${reason}`}, in `, link(['dead'], {topic: name}, name)),
        actionBar([['admin', 'Bring these back …', () => kickThese(all, what, where)]], done));
}

/* Groups of the jobs that were read or, if it is given, of all that were counted. */
function fillGroups(place, read, counted, done) {
    const reasons = byReason(counted ?? read);
    const mark = counted ? `all ${counted.length}` : [...reasons].map(([key, all]) => [key, ...all.map(job => job.id)].join(' ')).join('\n');

    if (place.dataset.mark === mark) {
        return;
    }
    place.dataset.mark = mark;
    place.replaceChildren(...[...reasons].sort((a, b) => b[1].length - a[1].length).map(([key, all]) =>
        groupNode(key, all, counted ? 'counted here' : 'on this page', done)));
}

/* Page by page to the end: the server has no count by reason. {found, whole} */
async function readAll(filter, signal, progress) {
    let found = [];
    let cursor;

    do {
        const page = await get(['jobs'], {...filter, limit: PAGE, cursor}, signal);

        found = found.concat(page.jobs.map(({id, topic, reason}) => ({id, topic, reason})));
        cursor = page.cursor;
        progress(found.length);
    } while (cursor && found.length < COUNTED);
    return {found, whole: !cursor};
}

/* A button that counts all, and what it has counted; null: nothing. */
function counter(filter, signal, done, failed) {
    const self = {all: null, node: button(ALL, countAll, {hidden: true}), forget};

    function forget() {
        self.all = null;
        self.node.disabled = false;
        self.node.textContent = ALL;
    }

    async function countAll() {
        self.node.disabled = true;
        try {
            const {found, whole} = await readAll(filter, signal, n => {
                self.node.textContent = `${jobs(n)} so far …`;
            });

            self.all = found;
            self.node.textContent = `${whole ? 'All' : 'The first'} ${jobs(found.length)} are grouped`;
            done();
        } catch (error) {
            forget();
            if (!signal.aborted) {
                failed(error);
            }
        }
    }
    return self;
}

function topicForm(name) {
    const topic = field({name: 'topic', label: 'Topic', value: name ?? ''});

    return el('form', {class: 'filter', role: 'search', onsubmit: event => {
        event.preventDefault();
        go(['dead'], {topic: topic.read()});
    }}, topic.node, el('div', {class: 'field'}, el('button', {class: 'main'}, 'Show')));
}

export function show(place, {query, signal}) {
    const groups = el('div', {class: 'groups'});
    const wrong = el('p', {class: 'wrong', role: 'alert'});
    const note = el('p', {class: 'note'});
    const forward = button('Next page', () => go(['dead'], {...query, cursor: forward.dataset.cursor}), {disabled: true});
    const first = button('First page', () => go(['dead'], {topic: query.topic}), {disabled: !query.cursor});
    const filter = {state: 'dead', topic: query.topic ?? ''};
    const list = deadTable(again);
    const counted = counter(filter, signal, regroup, error => {
        wrong.textContent = error.message;
    });
    let told = {jobs: []};

    function regroup() {
        fillGroups(groups, told.jobs, counted.all, again);
    }

    async function load() {
        told = await get(['jobs'], {...filter, limit: PAGE, cursor: query.cursor}, signal);
        list.fill(told.jobs.slice(0, LISTED), told.cursor ? 'None among those looked at; there may be more on the next page.' : 'No job is dead.');
        regroup();
        counted.node.hidden = !counted.all && !told.cursor && !query.cursor;
        forward.disabled = told.cursor === null;
        forward.dataset.cursor = told.cursor ?? '';
        note.textContent = `${jobs(told.jobs.length)} on this page` + (told.jobs.length > LISTED ? `, of which the first ${LISTED} are listed` : '') + (told.cursor ? '; there are more' : '');
    }

    /* Who has left the page need not hear that it failed. */
    function again() {
        if (counted.all) {
            counted.forget();
        }
        load().catch(() => {});
    }

    place.append(el('h1', {}, 'Dead jobs'), topicForm(query.topic),
        query.topic ? actionBar([
            ['admin', `Bring all dead of ${query.topic} back …`, () => kickAll({topic: query.topic})],
            ['produce', `Cancel all dead of ${query.topic} …`, () => cancelAll(filter), true],
        ], again) : el('p', {class: 'note'}, 'Choose a topic to bring all its dead jobs back, or to drop them.'),
        wrong, groups, el('div', {class: 'buttons'}, counted.node), section(null, list.node, note), el('div', {class: 'buttons'}, first, forward));
    every(5000, signal, load, error => {
        wrong.textContent = error?.message ?? '';
    });
}
