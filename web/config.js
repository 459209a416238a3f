/* The config as it is in effect, where each value came from, and which tokens there are. */
import {el, table, section, facts} from './dom.js';
import {get, who} from './api.js';
import {every} from './live.js';
import {field} from './dialog.js';

const place_of = s => s.file ? `${s.file}, line ${s.line}` : s.from;

export function show(place, {signal}) {
    const search = field({name: 'search', label: 'Key or value has', value: ''});
    const own = field({name: 'own', label: 'Only what is not the default', kind: 'check'});
    const about = el('div', {});
    const settings = table([
        {title: 'key', wide: true, cell: s => s.key},
        {title: 'value', wide: true, cell: s => s.value ?? 'none'},
        {title: 'from', cell: place_of},
    ], s => s.key, 'Settings');
    const tokens = table([
        {title: 'name', wide: true, cell: t => t.name}, {title: 'role', cell: t => t.role}, {title: 'topics', wide: true, cell: t => t.topics},
        {title: 'rate', number: true, cell: t => t.rate ?? ''}, {title: 'from', cell: place_of},
    ], t => t.name, 'Tokens');
    let told = null;

    function fill() {
        const wanted = search.read().toLowerCase();
        const all = Object.entries(told?.settings ?? {}).map(([key, s]) => ({key, ...s}));

        settings.fill(all.filter(s => `${s.key} ${s.value ?? ''}`.toLowerCase().includes(wanted) && (!own.read() || s.from !== 'default')), 'Nothing matches.');
    }
    search.input.addEventListener('input', fill);
    own.input.addEventListener('change', fill);
    place.append(el('h1', {}, 'Config'), section(null, about),
        section('Settings', el('form', {class: 'filter', role: 'search', onsubmit: event => event.preventDefault()}, search.node, own.node), settings.node),
        section('Tokens', tokens.node));
    every(30000, signal, async () => {
        told = await get(['config'], {}, signal);
        about.replaceChildren(facts([['version', told.version], ['durability', told.durability],
                                     ['you', who.name ? `${who.name}: ${who.roles.join(', ')}; topics ${who.topics}` : 'anybody: there are no tokens']]));
        fill();
        tokens.fill(told.tokens, 'There are no tokens: whoever reaches the port may do everything.');
    });
}
