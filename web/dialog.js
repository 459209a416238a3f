/*
 * Questions. Nothing is changed without one, and each says what it will do before it is done. What
 * the server refuses is told in the dialog, which stays open with all that was typed.
 */
import {el, button, say} from './dom.js';
import {Refused, Unreachable} from './api.js';
import {toInput, fromInput} from './format.js';

const TOAST_MS = 6000;

/* A line at the edge of the page that goes by itself. */
export function toast(text, bad) {
    const node = el('p', {class: bad ? 'toast bad' : 'toast'}, text);

    document.getElementById('toasts').append(node);
    setTimeout(() => node.remove(), TOAST_MS);
}

let fields = 0;

/*
 * One field of a form: {name, label, value, kind, options, hint, raw}. kind: text, area, number,
 * select, moment (in ms), check. raw: blanks around it are meant. {node, name, read(), changed(), input}
 *
 * Browsers rewrite what is put into a field: line ends become \n, a moment loses its milliseconds.
 * So what nobody has touched is read as it was given, byte for byte.
 */
export function field({name, label, value = '', kind = 'text', options, hint, list, needed, maxlength, raw}) {
    const id = 'field' + fields++;
    const common = {id, name, required: Boolean(needed), maxlength, 'aria-describedby': hint ? id + '-hint' : null,
                    autocomplete: 'off', spellcheck: 'false'};
    const input = kind === 'area' ? el('textarea', {...common, rows: 6})
        : kind === 'select' ? el('select', common, options.map(option => {
            const [text, shown] = Array.isArray(option) ? option : [option, option];

            return el('option', {value: text}, shown);
        }))
        : kind === 'check' ? el('input', {...common, type: 'checkbox'})
        : el('input', {...common, list, step: kind === 'moment' ? '1' : null,
                       type: kind === 'moment' ? 'datetime-local' : kind === 'number' ? 'number' : 'text'});

    if (kind === 'check') {
        input.checked = Boolean(value);
    } else if (kind !== 'select' || value !== '') { /* without one, the first is chosen */
        input.value = kind === 'moment' && value !== '' ? toInput(value) : value;
    }
    if (kind === 'moment' && input.value === '') { /* it was none */
        value = '';
    }
    const look = () => kind === 'check' ? input.checked : input.value;
    const first = look();
    const changed = () => look() !== first;

    function read() {
        if (kind === 'check' || kind === 'select') {
            return look();
        }
        if (!changed()) {
            return value;
        }
        return kind === 'moment' ? fromInput(look()) ?? '' : kind === 'area' || raw ? look() : look().trim();
    }
    return {
        name, input, read, changed,
        node: el('div', {class: 'field' + (kind === 'area' ? ' whole' : '')}, el('label', {for: id}, label), input,
                 hint ? el('small', {id: id + '-hint'}, hint) : null),
    };
}

export function values(list) {
    return Object.fromEntries(list.map(one => [one.name, one.read()]));
}

/* Why something was refused, and at which field, if it says so. */
export function explain(error, list, place) {
    const at = list.find(one => one.name === error.field);

    list.forEach(one => one.input.removeAttribute('aria-invalid'));
    at?.input.setAttribute('aria-invalid', 'true');
    at?.input.focus();
    say(place, error.message);
    if (!(error instanceof Refused) && !(error instanceof Unreachable)) {
        throw error;
    }
}

/* Whether something is under way, and what Back and Escape do then: stop it, if it can be. */
function guard(node, {go, back, wrong, stops}) {
    const self = {busy: false, stop: new AbortController(), set, leave};

    function set(on) {
        self.busy = on;
        go.disabled = on;
        back.disabled = on && !stops;
        say(back, on && stops ? 'Stop' : 'Back');
        node.classList.toggle('busy', on);
    }

    function leave() {
        if (!self.busy) {
            node.close();
        } else if (stops) {
            self.stop.abort();
            back.disabled = true;
            say(wrong, 'Stops after what is under way …');
        }
    }
    node.addEventListener('cancel', event => {
        event.preventDefault();
        leave();
    });
    return self;
}

/*
 * question({title, says, fields, action, danger, type, stops, run}): opens a dialog; run(values)
 * does it and may give a text that is told when it is done. type: what has to be typed first.
 * Gives true when it was done.
 *
 * What has begun cannot be walked away from: the dialog stays until it is known how it ended. With
 * `stops`, Back and Escape stop it: run(values, progress, signal) goes on until the signal ends.
 */
export function question({title, says = [], fields: wanted = [], action, danger, type, stops, run}) {
    const list = wanted.map(one => 'node' in one ? one : field(one));
    const typed = type ? field({name: 'typed', label: `Type ${type} to go on`}) : null;
    const wrong = el('p', {class: 'wrong', role: 'alert'});
    const go = el('button', {type: 'submit', class: danger ? 'danger' : 'main', disabled: Boolean(type)}, action);
    const back = button('Back', () => guarded.leave());
    const node = el('dialog', {'aria-label': title}, el('form', {},
        el('h2', {}, title), says.map(line => line instanceof Node ? line : el('p', {}, line)),
        el('div', {class: 'fields'}, list.map(one => one.node), typed?.node), wrong,
        el('div', {class: 'buttons'}, back, go)));
    const guarded = guard(node, {go, back, wrong, stops});

    typed?.input.addEventListener('input', () => {
        go.disabled = typed.read() !== type;
    });
    document.body.append(node);
    node.showModal();
    if (list.length === 0 && !typed) {
        go.focus();
    }
    return new Promise(done => {
        let result = false;

        node.addEventListener('close', () => {
            node.remove();
            if (guarded.busy) { /* a browser closes it by force at the second Escape */
                guarded.stop.abort();
            } else {
                done(result);
            }
        });
        node.querySelector('form').addEventListener('submit', async event => {
            const {signal} = guarded.stop = new AbortController();

            event.preventDefault();
            guarded.set(true);
            say(wrong, '');
            try {
                const text = await run(values(list), text => !signal.aborted && say(wrong, text), signal);

                result = true;
                toast(text || 'Done');
            } catch (error) {
                guarded.set(false);
                if (!node.isConnected) {
                    toast(error.message, true);
                    done(false);
                }
                explain(error, list, wrong);
                return;
            }
            guarded.set(false);
            node.close();
            done(true);
        });
    });
}
