/*
 * The HTTP API of the server that served this page, under whatever prefix. The token is kept in
 * the session storage of this tab: it is gone with it, and no other site can read it.
 */

const KEPT = 'tarry.token';
const base = new URL('v1/', document.baseURI);
const clock = {offset: 0, still: null}; /* of the server; still: a test clock stands there */

export const who = {name: null, roles: [], topics: '*', all: true, version: ''};

export class Refused extends Error {
    constructor(status, error) {
        super(error.message ?? `the server answered ${status}`);
        this.status = status;
        this.code = error.code;
        this.field = error.field;
        this.state = error.state;
    }
}

export class Unreachable extends Error {}

export const token = {
    get: () => sessionStorage.getItem(KEPT),
    set: text => sessionStorage.setItem(KEPT, text),
    drop: () => sessionStorage.removeItem(KEPT),
};

/* What the server takes the time to be. */
export function now() {
    return clock.still ?? Date.now() + clock.offset;
}

function learnTime(ms) {
    if (clock.still !== null) {
        clock.still = ms;
    } else {
        clock.offset = ms - Date.now();
    }
}

function address(path, query) {
    const url = new URL(path.map(encodeURIComponent).join('/'), base);

    for (const [name, value] of Object.entries(query ?? {})) {
        if (value !== '' && value !== null && value !== undefined) {
            url.searchParams.set(name, value);
        }
    }
    return url;
}

/* path: ['topics', 'a/b', 'jobs']. options: query, json (an object), body (text or bytes), signal. */
export async function ask(method, path, options = {}) {
    const headers = {};
    let reply;
    let answer = null;

    if (token.get()) {
        headers.Authorization = 'Bearer ' + token.get();
    }
    if (options.json) {
        headers['Content-Type'] = 'application/json';
    }
    try {
        reply = await fetch(address(path, options.query), {
            method, headers, body: options.json ? JSON.stringify(options.json) : options.body,
            signal: options.signal, cache: 'no-store', credentials: 'omit', redirect: 'error',
        });
        answer = reply.status === 204 ? null : await reply.json();
    } catch (error) {
        if (error.name === 'AbortError' || !reply || reply.ok) { /* a proxy's error may be no JSON */
            throw error.name === 'AbortError' ? error : new Unreachable('the server does not answer');
        }
    }
    if (!reply.ok) {
        throw new Refused(reply.status, answer?.error ?? {});
    }
    if (answer && typeof answer.now_ms === 'number') {
        learnTime(answer.now_ms);
    }
    return answer;
}

export const get = (path, query, signal) => ask('GET', path, {query, signal});
export const post = (path, query, more) => ask('POST', path, {query, ...more});

/* Who we are to the server; throws 401 or 403 if we are nobody to it. */
export async function signIn() {
    const told = await get(['whoami']);

    Object.assign(who, told, {all: told.topics.split(',').includes('*')});
    clock.still = told.test_clock ? told.now_ms : null;
    learnTime(told.now_ms);
    return who;
}

export function can(role) {
    return who.roles.includes(role);
}

/* Is it ready, and if not, why? This one is told to everybody. */
export async function readiness(signal) {
    try {
        const reply = await fetch(new URL('../readyz', base), {signal, cache: 'no-store'});

        return ((await reply.json()).reasons ?? []).map(reason => ({...reason, ready: reply.ok}));
    } catch {
        return [];
    }
}
