/*
 * Where we are stands behind the # of the address: #/jobs?state=dead. So each view can be kept as a
 * bookmark or sent to somebody, also under a prefix, and nothing of it is sent to the server.
 */
import {href} from './dom.js';

export function here() {
    const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
    const parts = path.split('/').filter(Boolean).map(part => {
        try {
            return decodeURIComponent(part);
        } catch {
            return part;
        }
    });

    return {parts, query: Object.fromEntries(new URLSearchParams(query ?? ''))};
}

export function go(path, query) {
    location.hash = href(path, query);
}

/* The same place with other arguments, without a step in the history of the browser. */
export function restate(path, query) {
    history.replaceState(null, '', href(path, query));
}
