/*
 * Charts, in SVG: bars stacked by series, and lines. Both can be read without colour (patterns and
 * dashes), and without a mouse: a chart takes the focus once, arrow keys go from bar to bar, Enter
 * opens one, and what is under it is told in words below.
 */
import {el, svg, say} from './dom.js';
import {count, short, axisMoment, fullMoment, moment, jobs} from './format.js';

const LEFT = 44;
const BOTTOM = 20;
const TOP = 8;

/* A round number that is not less. */
function roundUp(n) {
    const power = 10 ** Math.floor(Math.log10(n || 1));

    return [1, 2, 3, 4, 5, 6, 8, 10].map(k => k * power).find(k => k >= n) || 1;
}

function axis(most, width, height, print) {
    return [0, 0.5, 1].map(part => {
        const y = TOP + (height - TOP - BOTTOM) * (1 - part);

        return [
            svg('line', {class: 'grid', x1: LEFT, x2: width, y1: y, y2: y}),
            svg('text', {class: 'scale', x: LEFT - 6, y: y + 4, 'text-anchor': 'end'},
                print(most * part)),
        ];
    });
}

function widthOf(picture) {
    return Math.floor(picture.getBoundingClientRect().width);
}

/* Draws again when the width changes. */
function drawn(picture, draw) {
    let width = 0;

    new ResizeObserver(() => {
        if (widthOf(picture) !== width) {
            width = widthOf(picture);
            draw();
        }
    }).observe(picture);
}

/* ---- bars ---- */

/* Fills 0 to 6 have a colour and a pattern each; the last one is for "others". */
export const SERIES = 7;

function patterns(id) {
    const lines = ['', 'M0 6L6 0', 'M0 3H6', 'M0 0L6 6', 'M3 0V6', 'M0 0L6 6M0 6L6 0', ''];

    return svg('defs', {}, lines.map((path, i) => svg('pattern',
        {id: `${id}-${i}`, class: `series-${i}`, width: 6, height: 6,
         patternUnits: 'userSpaceOnUse'},
        svg('rect', {width: 6, height: 6}), path ? svg('path', {d: path}) : null)));
}

let charts = 0;

const sum = step => step.values.reduce((a, b) => a + b, 0);

/* What a step is, in words; only some of the series have jobs in it. */
function describe(step, series) {
    const each = series.map((name, k) => [name, step.values[k] ?? 0]).filter(([, n]) => n > 0);

    return `${fullMoment(step.from)} to ${moment(step.to, step.from)}: ${jobs(sum(step))}`
        + (series.length > 1 && each.length > 0
            ? ' (' + each.map(([name, n]) => `${name} ${count(n)}`).join(', ') + ')' : '');
}

/* One on the other, from the ground up: as high as they count. */
function stack(step, {x, width, height, scale, fill}) {
    let y = height - BOTTOM;

    return step.values.map((n, k) => {
        const tall = n > 0 ? Math.max(1, n * scale) : 0;

        y -= tall;
        return tall > 0 ? svg('rect', {x: x + 0.5, y, width: Math.max(1, width - 1), height: tall, fill: fill(k)}) : null;
    });
}

/* When steps are, below as many of them as there is room for. */
function momentsBelow(data, width, height) {
    const wide = (width - LEFT) / Math.max(1, data.steps.length);
    const every = Math.max(1, Math.ceil(70 / wide));

    return data.steps.map((step, i) => i % every === 0 && LEFT + i * wide + 34 <= width
        ? svg('text', {class: 'scale', x: LEFT + i * wide, y: height - 5}, axisMoment(step.from, data.step)) : '').filter(Boolean);
}

function keyOf(name, fill) {
    return el('li', {}, svg('svg', {width: 14, height: 14, 'aria-hidden': 'true'},
                            svg('rect', {width: 14, height: 14, fill})), name);
}

/* From bar to bar: at() is the one that is chosen, -1 none. */
function onKeys(picture, {at, last, choose, open}) {
    picture.addEventListener('keydown', event => {
        const move = {ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity}[event.key];

        if (move !== undefined) {
            choose(Math.min(last(), Math.max(0, at() + move)));
            event.preventDefault();
        } else if (event.key === 'Enter') {
            open(at());
        } else if (event.key === 'Escape') {
            choose(-1);
        }
    });
}

/*
 * {node, fill({steps: [{from, to, values}], series: [names], step})}; pick(step) is called for one
 * that was opened.
 */
export function bars({label, height = 220, pick}) {
    const id = 'chart' + charts++;
    const picture = svg('svg', {class: 'chart', height, role: 'img', tabindex: '0',
                                'aria-label': label, 'aria-describedby': id + '-said'});
    const said = el('p', {class: 'said', id: id + '-said', 'aria-live': 'polite'});
    const legend = el('ul', {class: 'legend'});
    const node = el('figure', {}, picture, said, legend);
    const fill = k => `url(#${id}-${data.fills?.[k] ?? k})`;
    let data = {steps: [], series: [], step: 60000};
    let at = -1;

    function summary() {
        const total = data.steps.reduce((a, step) => a + sum(step), 0);

        return `${jobs(total)} in all` + (pick && total > 0 ? '; choose a bar to see its jobs' : '');
    }

    function tellAbout(i) {
        at = i;
        picture.querySelectorAll('.bar').forEach((bar, k) => bar.classList.toggle('chosen', k === i));
        say(said, data.steps[i] ? describe(data.steps[i], data.series) : summary());
    }

    function bar(step, i, scale, width) {
        const x = LEFT + i * width;

        return svg('g', {class: 'bar', onmouseenter: () => tellAbout(i), onmouseleave: () => tellAbout(-1),
                         onclick: () => pick?.(step)},
                   svg('rect', {class: 'touch', x, y: TOP, width, height: height - TOP - BOTTOM}),
                   stack(step, {x, width, height, scale, fill}));
    }

    function draw() {
        const width = widthOf(picture);
        const steps = data.steps;
        const most = roundUp(Math.max(1, ...steps.map(sum)));
        const wide = (width - LEFT) / Math.max(1, steps.length);
        const scale = (height - TOP - BOTTOM) / most;

        if (width === 0) {
            return;
        }
        picture.replaceChildren(patterns(id), ...axis(most, width, height, short).flat(),
            ...steps.map((step, i) => bar(step, i, scale, wide)), ...momentsBelow(data, width, height));
        legend.replaceChildren(...(data.series.length > 1 ? data.series : []).map((name, k) => keyOf(name, fill(k))));
        tellAbout(at < steps.length ? at : -1);
    }

    onKeys(picture, {at: () => at, last: () => data.steps.length - 1, choose: tellAbout,
                     open: i => data.steps[i] && pick?.(data.steps[i])});
    picture.classList.toggle('picks', Boolean(pick));
    drawn(picture, draw);
    return {
        node,
        fill(more) {
            data = more;
            draw();
        },
    };
}

/* ---- lines ---- */

/* {node, fill([{at, values}])}: a line for each name, the second one dashed. */
export function lines({label, names, print, height = 120}) {
    const picture = svg('svg', {class: 'chart', height, role: 'img', 'aria-label': label});
    const keys = names.map((name, i) => el('li', {},
        svg('svg', {width: 22, height: 10, 'aria-hidden': 'true'},
            svg('path', {class: `line line-${i}`, d: 'M0 5H22'})), el('span', {}, name)));
    const node = el('figure', {}, el('figcaption', {}, label), picture, el('ul', {class: 'legend'}, keys));
    let data = [];

    function draw() {
        const width = widthOf(picture);
        const span = 600000;
        const end = data.at(-1)?.at ?? 0;
        const most = roundUp(Math.max(1, ...data.flatMap(sample => sample.values)));
        const x = at => LEFT + (width - LEFT) * (1 - (end - at) / span);
        const y = value => height - BOTTOM - (height - TOP - BOTTOM) * value / most;

        if (width === 0) {
            return;
        }
        picture.replaceChildren(...axis(most, width, height, print).flat(),
            svg('text', {class: 'scale', x: LEFT, y: height - 5}, '10 minutes ago'),
            svg('text', {class: 'scale', x: width, y: height - 5, 'text-anchor': 'end'}, 'now'),
            ...names.map((name, i) => svg('path', {
                class: `line line-${i}`,
                d: data.map((sample, k) => `${k ? 'L' : 'M'}${x(sample.at).toFixed(1)} ${y(sample.values[i]).toFixed(1)}`)
                    .join(''),
            })));
        keys.forEach((key, i) => say(key.lastChild, `${names[i]} ${data.length ? print(data.at(-1).values[i]) : ''}`));
    }

    drawn(picture, draw);
    return {
        node,
        fill(samples) {
            data = samples;
            draw();
        },
    };
}
