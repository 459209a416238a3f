/*
 * The frame: sign-in, the bar at the top, notices, and which screen is shown. A screen is a module
 * with show(place, where): it fills `place`, and asks for its data until where.signal ends it.
 */
import {el, button, say, href} from './dom.js';
import {signIn, token, who, now, can, readiness, Refused} from './api.js';
import {here} from './router.js';
import {live, watch, setLive, every, startFigures} from './live.js';
import {fullMoment, moment, zone} from './format.js';
import {pushJob, advanceClock} from './actions.js';
import {toast} from './dialog.js';
import * as overview from './overview.js';
import * as forecast from './forecast.js';
import * as topics from './topics.js';
import * as topic from './topic.js';
import * as jobs from './jobs.js';
import * as job from './job.js';
import * as dead from './dead.js';
import * as schedules from './schedules.js';
import * as outlets from './outlets.js';
import * as storage from './storage.js';
import * as config from './config.js';

/* all: it needs a token for all topics. */
const SCREENS = {
    '': {title: 'Overview', screen: overview},
    forecast: {title: 'Forecast', screen: forecast},
    topics: {title: 'Topics', screen: topics, one: topic},
    jobs: {title: 'Jobs', screen: jobs, one: job},
    dead: {title: 'Dead', screen: dead},
    schedules: {title: 'Schedules', screen: schedules, all: true},
    outlets: {title: 'Outlets', screen: outlets},
    storage: {title: 'Storage', screen: storage, all: true},
    config: {title: 'Config', screen: config, all: true},
};

const place = document.getElementById('main');
let shown = new AbortController(); /* the screen */
let signed = new AbortController(); /* the session */
let inside = false; /* somebody is signed in */

/* ---- screens ---- */

function show() {
    const {parts, query} = here();
    const [name = '', one, ...rest] = parts;
    const screen = Object.hasOwn(SCREENS, name) ? SCREENS[name] : undefined;
    const title = one !== undefined ? `${one} · ${screen?.title}` : screen?.title;

    shown.abort();
    shown = new AbortController();
    place.replaceChildren();
    document.title = `${title ?? 'not found'} – tarry`;
    document.querySelectorAll('#top nav a').forEach(a => {
        a.ariaCurrent = a.getAttribute('href') === href(name ? [name] : []) ? 'page' : null;
    });
    if (!screen || rest.length > 0 || (one !== undefined && !screen.one)) {
        place.append(el('h1', {}, 'There is no such page'));
        return;
    }
    if (screen.all && !who.all) {
        place.append(el('h1', {}, screen.title), el('p', {}, 'This concerns all topics, and your token is not for all of them.'));
        return;
    }
    const inner = el('div', {});

    place.append(inner);
    (one !== undefined ? screen.one : screen.screen).show(inner, {one, query, signal: shown.signal});
    window.scrollTo(0, 0);
}

/* ---- the bar ---- */

function bar() {
    const state = button('', () => setLive(!live.on), {class: 'live'});
    const nav = el('nav', {'aria-label': 'Screens'},
        Object.entries(SCREENS).map(([name, screen]) => el('a', {href: href(name ? [name] : [])}, screen.title)));

    function tell() {
        say(state, live.trouble ? '▲ no answer' : live.on ? `● live ${moment(now())}` : '❙❙ stopped');
        state.title = live.trouble ?? (live.on ? 'Asks every two seconds. Press to stop' : 'Press to go on');
        state.classList.toggle('bad', Boolean(live.trouble));
    }
    watch(tell, signed.signal);
    tell();
    document.getElementById('top').replaceChildren(
        el('a', {class: 'home', href: '#/'}, el('img', {src: 'ui/icon.svg', alt: '', width: 22, height: 22}), 'tarry'),
        nav,
        el('div', {class: 'right'},
            can('produce') ? button('Push …', () => pushJob(here().parts[0] === 'topics' ? here().parts[1] : ''), {class: 'main'}) : null,
            state));
}

function foot() {
    const roles = who.roles.includes('admin') ? 'admin' : who.roles.join(' + ');

    document.getElementById('foot').replaceChildren(...[
        el('span', {}, `tarry ${who.version}`),
        el('span', {}, who.name ? `signed in as ${who.name} (${roles}; topics ${who.topics})` : 'without tokens: everybody may do everything'),
        button(zone.utc ? 'times are UTC' : 'times are local', () => {
            zone.set(!zone.utc);
            foot();
            show();
        }),
        who.name ? button('sign out', () => {
            token.drop();
            location.reload();
        }) : null,
    ].filter(Boolean));
}

let reasons = []; /* why it is not ready */

/* What everybody should know: it is not ready, it has a test clock, we may only look. */
function notices() {
    const list = reasons.map(reason => el('p', {class: 'notice bad'}, `${reason.ready ? 'Warning' : 'Not ready'}: ${reason.message}`));

    if (who.test_clock) {
        list.push(el('p', {class: 'notice'}, `Test clock: time stands still at ${fullMoment(now())}. `,
                     can('admin') ? button('Advance …', async () => {
                         if (await advanceClock()) {
                             notices();
                             show();
                         }
                     }) : null));
    }
    if (who.name && who.roles.length === 1 && who.roles[0] === 'read') {
        list.push(el('p', {class: 'notice'}, 'This token may look, and change nothing.'));
    }
    const box = document.getElementById('notices');

    if (box.textContent !== list.map(node => node.textContent).join('')) {
        box.replaceChildren(...list);
    }
}

/* ---- signing in ---- */

function askForToken(why) {
    const input = el('input', {type: 'password', id: 'token', name: 'token', autocomplete: 'off', required: true,
                               spellcheck: 'false'});
    const wrong = el('p', {class: 'wrong', role: 'alert'}, why ?? '');
    const form = el('form', {class: 'sign-in'},
        el('h1', {}, 'tarry'), el('p', {}, 'This server has tokens. Yours stays in this tab, and is forgotten with it.'),
        el('label', {for: 'token'}, 'Token'), input, wrong, el('button', {class: 'main'}, 'Sign in'));

    form.addEventListener('submit', event => {
        event.preventDefault();
        token.set(input.value.trim());
        start();
    });
    document.getElementById('top').replaceChildren();
    document.getElementById('foot').replaceChildren();
    document.getElementById('notices').replaceChildren();
    place.replaceChildren(form);
    input.focus();
}

async function start() {
    const had = token.get();

    signed.abort();
    shown.abort();
    signed = new AbortController();
    inside = false;
    try {
        await signIn();
    } catch (error) {
        const refused = error instanceof Refused;

        if (refused && (error.status === 401 || error.status === 403)) {
            token.drop();
            askForToken(had ? error.message : '');
        } else { /* 429, say: the token may be good, and is kept */
            place.replaceChildren(el('h1', {}, refused ? 'Not now' : 'The server does not answer'), el('p', {}, error.message),
                                  el('div', {class: 'buttons'}, button('Try again', start),
                                     refused && had ? button('Another token', () => askForToken('')) : null));
        }
        return;
    }
    inside = true;
    bar();
    foot();
    startFigures(signed.signal);
    every(10000, signed.signal, async () => {
        reasons = await readiness(signed.signal);
        notices();
    });
    show();
}

window.addEventListener('hashchange', () => inside && show());
window.addEventListener('tarry-signed-out', () => {
    if (!inside) { /* several requests are refused at the same time */
        return;
    }
    if (token.get()) {
        toast('The token is not valid any more', true);
    }
    token.drop();
    start();
});
document.querySelector('.skip').addEventListener('click', event => {
    event.preventDefault();
    place.focus();
});

/* g and a letter: go there; /: search; p: push. Not while somebody types. */
const KEYS = {o: '', f: 'forecast', t: 'topics', j: 'jobs', d: 'dead', s: 'schedules', c: 'config'};
let before = '';

document.addEventListener('keydown', event => {
    const typing = /INPUT|SELECT|TEXTAREA/.test(event.target.tagName) || document.querySelector('dialog');

    if (typing || event.ctrlKey || event.altKey || event.metaKey) {
        return;
    }
    if (before === 'g' && Object.hasOwn(KEYS, event.key)) {
        location.hash = href(KEYS[event.key] ? [KEYS[event.key]] : []);
    } else if (event.key === '/') {
        const search = place.querySelector('input');

        search?.focus();
        event.preventDefault();
    } else if (event.key === 'p' && can('produce')) {
        event.preventDefault();
        pushJob();
    }
    before = event.key;
});

start();
