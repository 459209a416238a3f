/*
 * Elements. Whatever comes from the server goes into the page as text, by text nodes: nothing in
 * web/ sets markup, and links lead only to places of the dashboard itself (href() below).
 */

function put(node, attrs, children) {
    for (const [name, value] of Object.entries(attrs ?? {})) {
        if (name.startsWith('on')) {
            node.addEventListener(name.slice(2), value);
        } else if (name === 'value') {
            node.value = value;
        } else if (value === true) {
            node.setAttribute(name, '');
        } else if (value !== false && value !== null && value !== undefined) {
            node.setAttribute(name, value);
        }
    }
    node.append(...children.flat(3).filter(child => child !== null && child !== undefined
                                                    && child !== false));
    return node;
}

/* el('td', {class: 'number'}, 'text', otherElement): text stays text. */
export function el(name, attrs, ...children) {
    return put(document.createElement(name), attrs, children);
}

export function svg(name, attrs, ...children) {
    return put(document.createElementNS('http://www.w3.org/2000/svg', name), attrs, children);
}

/* '#/jobs/17?x=y' of ['jobs', '17'] and {x: 'y'}; what is empty is left out. */
export function href(path, query) {
    const given = Object.entries(query ?? {}).filter(([, value]) => value !== '' && value !== null
                                                                    && value !== undefined);
    const text = new URLSearchParams(given).toString();

    return '#/' + path.map(encodeURIComponent).join('/') + (text ? '?' + text : '');
}

export function link(path, query, ...children) {
    return el('a', {href: href(path, query)}, ...children);
}

export function button(text, onclick, attrs) {
    return el('button', {type: 'button', onclick, ...attrs}, text);
}

/* Sets the text only when it is another one, so that what a user has selected stays. */
export function say(node, text) {
    if (node.textContent !== String(text)) {
        node.textContent = text;
    }
    return node;
}

/*
 * A table that is filled again and again: rows stay the same elements as long as their keys do, so
 * focus and selection survive. columns: [{title, cell(item) -> text or element, number, wide}].
 * A cell that is text is only changed where it differs.
 */
export function table(columns, key, caption) {
    const body = el('tbody');
    const head = el('tr', {}, columns.map(c => el('th', {scope: 'col', class: classes(c)}, c.title)));
    const node = el('div', {class: 'table', tabindex: '0', role: 'region', 'aria-label': caption},
                    el('table', {}, el('thead', {}, head), body));
    const rows = new Map();

    function fill(items, nothing) {
        const seen = new Set();

        node.classList.toggle('empty', items.length === 0);
        items.forEach((item, at) => {
            const name = key(item);
            const row = rows.get(name) ?? el('tr', {}, columns.map(c => el('td', {class: classes(c),
                                                                          'data-title': c.title})));

            seen.add(name);
            rows.set(name, row);
            columns.forEach((c, i) => fillCell(row.cells[i], c.cell(item)));
            if (body.rows[at] !== row) {
                body.insertBefore(row, body.rows[at] ?? null);
            }
        });
        for (const [name, row] of rows) {
            if (!seen.has(name)) {
                row.remove();
                rows.delete(name);
            }
        }
        body.querySelector('.nothing')?.remove();
        if (items.length === 0) {
            body.append(el('tr', {class: 'nothing'}, el('td', {colspan: columns.length}, nothing)));
        }
    }
    return {node, fill};
}

function classes(column) {
    return [column.number && 'number', column.wide && 'wide', column.still && 'still']
        .filter(Boolean).join(' ') || null;
}

/* Elements with the same key are taken to be the same. */
function fillCell(cell, content) {
    if (content instanceof Node) {
        const mark = content.dataset?.mark ?? content.textContent;

        if (cell.dataset.mark !== mark || !cell.firstElementChild) {
            cell.dataset.mark = mark;
            cell.replaceChildren(content);
        }
    } else {
        delete cell.dataset.mark;
        say(cell, content ?? '');
    }
}

/* A name and a value, many of them. */
export function facts(list) {
    return el('dl', {class: 'facts'},
              list.filter(Boolean).map(([name, value, why]) => el('div', {title: why},
                  el('dt', {}, name), el('dd', {}, value ?? '–'))));
}

/* A figure that changes: {node, set(text, below)}. */
export function tile(title, to, mark) {
    const value = el('b', {}, '…');
    const below = el('small');
    const inner = [el('span', {}, mark ? el('i', {class: 'mark ' + mark}) : null, title), value, below];
    const node = to ? el('a', {class: 'tile', href: to}, inner) : el('div', {class: 'tile'}, inner);

    return {
        node,
        set(text, more) {
            say(value, text);
            say(below, more ?? '');
        },
    };
}

export function section(title, ...children) {
    return el('section', {}, title ? el('h2', {}, title) : null, ...children);
}
