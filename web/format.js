/*
 * Numbers, sizes, durations and moments as people read them. Moments are local time unless UTC was
 * chosen; the title of a moment always has both the zone and the date.
 */
import {el} from './dom.js';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const whole = new Intl.NumberFormat('en');
const tenth = new Intl.NumberFormat('en', {maximumFractionDigits: 1});

export const zone = {
    utc: sessionStorage.getItem('tarry.utc') === 'yes',
    set(utc) {
        zone.utc = utc;
        sessionStorage.setItem('tarry.utc', utc ? 'yes' : 'no');
    },
};

export function count(n) {
    return n === undefined || n === null ? '–' : whole.format(n);
}

export function jobs(n) {
    return `${count(n)} ${n === 1 ? 'job' : 'jobs'}`;
}

/* 1,234 or 12.3 k or 4.5 M. */
export function short(n) {
    const steps = [[1e9, 'G'], [1e6, 'M'], [1e4, 'k']];
    const step = steps.find(([least]) => n >= least);

    return step ? `${tenth.format(n / (step[1] === 'k' ? 1000 : step[0]))} ${step[1]}` : tenth.format(n);
}

export function rate(n) {
    return `${n >= 100 ? short(Math.round(n)) : tenth.format(n)}/s`;
}

export function bytes(n) {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let at = 0;

    if (n === undefined || n === null) {
        return '–';
    }
    while (n >= 1024 && at < units.length - 1) {
        n /= 1024;
        at++;
    }
    return `${at === 0 ? whole.format(n) : tenth.format(n)} ${units[at]}`;
}

/* 0.4 ms, 12 s, 3 h 20 m: the two largest parts. */
export function duration(ms) {
    if (ms === undefined || ms === null) {
        return '–';
    }
    if (ms < 1000) {
        return `${tenth.format(ms)} ms`;
    }
    if (ms < 10 * SECOND) {
        return `${tenth.format(ms / SECOND)} s`;
    }
    const parts = [[DAY, 'd'], [HOUR, 'h'], [MINUTE, 'm'], [SECOND, 's']];
    const first = parts.findIndex(([size]) => ms >= size);
    const major = Math.floor(ms / parts[first][0]);
    const minor = first + 1 < parts.length
        ? Math.floor(ms % parts[first][0] / parts[first + 1][0]) : 0;

    return `${whole.format(major)} ${parts[first][1]}` + (minor ? ` ${minor} ${parts[first + 1][1]}` : '');
}

/* The same as the API writes it, exactly: 1h30m, 250ms. */
export function durationText(ms) {
    let text = '';

    if (ms === undefined || ms === null) {
        return '';
    }
    for (const [size, unit] of [[DAY, 'd'], [HOUR, 'h'], [MINUTE, 'm'], [SECOND, 's'], [1, 'ms']]) {
        if (ms >= size) {
            text += Math.floor(ms / size) + unit;
            ms %= size;
        }
    }
    return text || '0';
}

function parts(ms) {
    const date = new Date(ms);
    const two = n => String(n).padStart(2, '0');
    const get = name => date[(zone.utc ? 'getUTC' : 'get') + name]();

    return {
        day: `${get('FullYear')}-${two(get('Month') + 1)}-${two(get('Date'))}`,
        time: `${two(get('Hours'))}:${two(get('Minutes'))}:${two(get('Seconds'))}`,
    };
}

/* The time of day; with the date when that is not today. */
export function moment(ms, now = Date.now()) {
    const it = parts(ms);

    return it.day === parts(now).day ? it.time : `${it.day} ${it.time}`;
}

export function fullMoment(ms) {
    return `${parts(ms).day} ${parts(ms).time}` + (zone.utc ? ' UTC' : '');
}

/* Without seconds where they are all 0: for axes. */
export function axisMoment(ms, step) {
    const it = parts(ms);

    if (step >= DAY) {
        return it.day.slice(5);
    }
    if (it.time === '00:00:00') {
        return it.day.slice(5);
    }
    return step < MINUTE ? it.time : it.time.slice(0, 5);
}

/* in 3 m 10 s, 20 s ago. */
export function away(ms, now) {
    return ms > now ? `in ${duration(ms - now)}` : `${duration(now - ms)} ago`;
}

/* An element for a moment, for tables. */
export function when(ms, now) {
    const node = el('time', {datetime: new Date(ms).toISOString(),
                             title: `${new Date(ms).toISOString()} (UTC)`},
                    moment(ms, now), ' ', el('small', {}, away(ms, now)));

    return node;
}

/* A number as one; other text stays as it is, so that the server refuses it (NaN would go as null). */
export function numberOf(text) {
    return /^[-+]?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}

/* For <input type="datetime-local">, and back. */
export function toInput(ms) {
    return parts(ms).day + 'T' + parts(ms).time;
}

export function fromInput(text) {
    const ms = Date.parse(zone.utc ? text + 'Z' : text);

    return Number.isNaN(ms) ? null : ms;
}

const STATES = ['delayed', 'ready', 'reserved', 'dead'];

/* A state as a word with a shape, so that colour is not needed. */
export function stateMark(name) {
    return el('span', {class: 'state', 'data-mark': 'state ' + name},
              el('i', {class: 'mark ' + (STATES.includes(name) ? name : 'gone')}), name);
}
