/* All topics, or those whose names have something in them: a page of the first by what is chosen. */
import {el} from './dom.js';
import {get} from './api.js';
import {every} from './live.js';
import {count} from './format.js';
import {restate} from './router.js';
import {field} from './dialog.js';
import {topicTable} from './overview.js';

const PAGE = 100;
const SORTS = [
    ['delayed', 'most delayed'], ['ready', 'most ready'], ['oldest', 'oldest ready'], ['reserved', 'most reserved'],
    ['dead', 'most dead'], ['pushed', 'most pushed of late'], ['handed', 'most handed out of late'], ['late', 'latest'],
];

export function show(place, {query, signal}) {
    const match = field({name: 'match', label: 'Name has', value: query.match ?? ''});
    const sort = field({name: 'sort', label: 'First', kind: 'select', options: SORTS, value: query.sort ?? 'delayed'});
    const list = topicTable();
    const note = el('p', {class: 'note', role: 'status'});
    let again = new AbortController();

    if (!sort.input.value) {
        sort.input.value = 'delayed';
    }
    place.append(el('h1', {}, 'Topics'),
        el('form', {class: 'filter', role: 'search', onsubmit: event => event.preventDefault()}, match.node, sort.node),
        list.node, note);

    function begin() {
        again.abort();
        again = new AbortController();
        signal.addEventListener('abort', () => again.abort(), {signal: again.signal});
        restate(['topics'], {match: match.read(), sort: sort.read()});
        every(2000, again.signal, async inner => {
            const told = await get(['topics'], {match: match.read(), sort: sort.read(), limit: PAGE}, inner);

            list.fill(told.topics, match.read() ? 'No topic has that in its name.' : 'There is no topic yet: push a job.');
            note.textContent = told.matched > told.topics.length
                ? `${count(told.topics.length)} of ${count(told.matched)} topics: write a part of a name to find others.`
                : `${count(told.matched)} ${told.matched === 1 ? 'topic' : 'topics'}.`;
        });
    }
    match.input.addEventListener('input', begin);
    sort.input.addEventListener('change', begin);
    begin();
}
