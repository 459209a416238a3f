/*
 * Asking again and again, cheaply: a task runs, and again so long after it has ended; never while
 * the tab is hidden or the user has stopped it; seldom while the server does not answer.
 *
 * The figures of the server are asked for every two seconds for all screens together, and those of
 * the last ten minutes are kept, since the server itself keeps no past: charts begin when the
 * page was opened.
 */
import {get, Unreachable, Refused, who} from './api.js';

const EVERY_MS = 2000;
const PATIENCE_MS = 10000;
const KEEP = 300; /* samples */

export const live = {on: true, trouble: null};
export const past = []; /* {at, stats} */

const watchers = new Set(); /* of the state above */
const sleepers = new Set(); /* tasks to be woken when the tab is seen again */
const readers = new Set(); /* of the figures */

export function watch(fn, signal) {
    watchers.add(fn);
    signal.addEventListener('abort', () => watchers.delete(fn));
}

function tell(trouble) {
    if (live.trouble !== trouble) {
        live.trouble = trouble;
    }
    watchers.forEach(fn => fn());
}

function wake() {
    if (live.on && !document.hidden) {
        [...sleepers].forEach(fn => fn());
    }
}

document.addEventListener('visibilitychange', wake);

export function setLive(on) {
    live.on = on;
    tell(live.trouble);
    wake();
}

function pause(ms, signal) {
    return new Promise(done => {
        const end = () => {
            clearTimeout(timer);
            sleepers.delete(end);
            signal.removeEventListener('abort', end);
            done();
        };
        const timer = setTimeout(() => {
            if (live.on && !document.hidden) {
                end();
            }
        }, ms);

        sleepers.add(end);
        signal.addEventListener('abort', end);
    });
}

/*
 * Runs task(signal) at once and then every so often, until the signal ends it. What it cannot do
 * is told by `failed`, once; the next success takes that back (failed(null)).
 */
export async function every(ms, signal, task, failed = () => {}) {
    while (!signal.aborted) {
        let wait = ms;

        try {
            await task(signal);
            failed(null);
            tell(null);
        } catch (error) {
            if (signal.aborted || error.name === 'AbortError') {
                return;
            }
            if (error instanceof Unreachable) {
                wait = Math.max(ms, PATIENCE_MS / 2);
                tell(error.message);
            } else if (error instanceof Refused && error.status === 401) {
                window.dispatchEvent(new Event('tarry-signed-out'));
                return;
            } else if (error instanceof Refused) {
                failed(error);
                wait = Math.max(ms, PATIENCE_MS);
            } else {
                throw error;
            }
        }
        await pause(wait, signal);
    }
}

/* fn(stats) for each new set of figures, and at once if there is one. */
export function figures(signal, fn) {
    readers.add(fn);
    signal.addEventListener('abort', () => readers.delete(fn));
    if (past.length > 0) {
        fn(past.at(-1).stats);
    }
}

/* Begins when somebody has signed in. A token for some topics only has no figures of all. */
export function startFigures(signal) {
    past.length = 0;
    if (!who.all) {
        return;
    }
    every(EVERY_MS, signal, async () => {
        const stats = await get(['stats'], {}, signal);

        past.push({at: stats.now_ms, stats});
        past.splice(0, past.length - KEEP);
        readers.forEach(fn => fn(stats));
    });
}
