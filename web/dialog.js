/*
 * Questions. Nothing is changed without one, and each says what it will do before it is done. What
 * the server refuses is told in the dialog, which stays open with all that was typed.
 */
import {el, button, say} from './dom.js';
import {Refused, Unreachable} from './api.js';

const TOAST_MS = 6000;

/* A line at the edge of the page that goes by itself. */
export function toast(text, bad) {
    const node = el('p', {class: bad ? 'toast bad' : 'toast'}, text);

    document.getElementById('toasts').append(node);
    setTimeout(() => node.remove(), TOAST_MS);
}

let fields = 0;

/*
 * One field of a form: {name, label, value, kind, options, hint, wide}. kind: text, area, number,
 * select, moment, check. {node, name, read() -> text, input}
 */
export function field({name, label, value = '', kind = 'text', options, hint, list, needed, maxlength}) {
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
    } else {
        input.value = value;
    }
    return {
        name, input,
        node: el('div', {class: 'field' + (kind === 'area' ? ' whole' : '')}, el('label', {for: id}, label), input,
                 hint ? el('small', {id: id + '-hint'}, hint) : null),
        read: () => kind === 'check' ? input.checked : kind === 'area' ? input.value : input.value.trim(),
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

/*
 * question({title, says, fields, action, danger, type, run}): opens a dialog; run(values) does it
 * and may give a text that is told when it is done. type: what has to be typed first. Gives true
 * when it was done.
 */
export function question({title, says = [], fields: wanted = [], action, danger, type, run}) {
    const list = wanted.map(one => 'node' in one ? one : field(one));
    const typed = type ? field({name: 'typed', label: `Type ${type} to go on`}) : null;
    const wrong = el('p', {class: 'wrong', role: 'alert'});
    const go = el('button', {type: 'submit', class: danger ? 'danger' : 'main', disabled: Boolean(type)}, action);
    const node = el('dialog', {'aria-label': title}, el('form', {},
        el('h2', {}, title), says.map(line => line instanceof Node ? line : el('p', {}, line)),
        el('div', {class: 'fields'}, list.map(one => one.node), typed?.node), wrong,
        el('div', {class: 'buttons'}, button('Back', () => node.close()), go)));

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
            done(result);
        });
        node.querySelector('form').addEventListener('submit', async event => {
            event.preventDefault();
            go.disabled = true;
            node.classList.add('busy');
            say(wrong, '');
            try {
                const text = await run(values(list), text => say(wrong, text));

                result = true;
                node.close();
                toast(text || 'Done');
            } catch (error) {
                explain(error, list, wrong);
            } finally {
                go.disabled = false;
                node.classList.remove('busy');
            }
        });
    });
}
