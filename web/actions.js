/*
 * What can be done, each with its question. The count in a question about many jobs comes from the
 * server (dry_run), at the moment of asking.
 */
import {ask, get, post, can, now} from './api.js';
import {el} from './dom.js';
import {question, field, toast} from './dialog.js';
import {count, jobs, duration, durationText, fullMoment, toInput, fromInput} from './format.js';

/* Fields that were left empty are not sent. */
function given(values) {
    return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ''));
}

function name(job) {
    return job.key ? `job ${job.id} (${job.key})` : `job ${job.id}`;
}

/* ---- pushing ---- */

/* When: after a delay, or at a moment. */
function dueFields(delay) {
    return [
        field({name: 'delay', label: 'Due after', value: delay, hint: 'such as 30m or 1h30m; 0: at once'}),
        field({name: 'at', label: 'or at', kind: 'moment', hint: 'if given, this counts'}),
    ];
}

/* As the API wants it; the server itself says what is wrong with a delay. */
function dueOf({delay, at, ...rest}) {
    return at ? {...rest, at: fromInput(at)} : {...rest, delay};
}

export function pushJob(topic = '', like = {}) {
    return question({
        title: 'Push a job',
        fields: [
            {name: 'topic', label: 'Topic', value: topic, needed: true},
            ...dueFields('10m'),
            {name: 'key', label: 'Key', value: '', hint: 'a name of its own, such as an order number'},
            {name: 'tag', label: 'Tag', value: like.tag ?? ''},
            {name: 'priority', label: 'Priority', kind: 'number', value: like.priority ?? '', hint: 'smaller first; 1024'},
            {name: 'ttr', label: 'Time to run', value: ''},
            {name: 'ttl', label: 'Time to live', value: ''},
            {name: 'on_conflict', label: 'If the key is there', kind: 'select', options: ['error', 'replace', 'keep']},
            {name: 'body', label: 'Body', kind: 'area', value: like.body ?? ''},
        ],
        action: 'Push',
        async run(values) {
            const {topic: to, body, ...rest} = dueOf(values);
            const made = await post(['topics', to, 'jobs'], given(rest), {body});

            return `Pushed ${name(made)}, due ${fullMoment(made.due_ms)}`;
        },
    });
}

/* ---- one job ---- */

export function cancelJob(job) {
    const held = job.state === 'reserved';

    return question({
        title: `Cancel ${name(job)}`,
        says: [`It is ${job.state}, in ${job.topic}, due ${fullMoment(job.due_ms)}. After this it is never handed out again.`,
               held ? 'A consumer has it: the lease is lost, but what the consumer has begun goes on.' : null].filter(Boolean),
        action: 'Cancel the job', danger: true,
        async run() {
            const told = await ask('DELETE', ['jobs', job.id], {query: {force: held ? 'true' : ''}});

            return `Cancelled; it was ${told.was}`;
        },
    });
}

export function fireJob(job) {
    return question({
        title: `Fire ${name(job)} now`,
        says: [`It is due ${fullMoment(job.due_ms)}. It becomes ready at once, and the next consumer of ${job.topic} gets it.`],
        action: 'Fire now',
        run: async () => `Fired: it is ${(await post(['jobs', job.id, 'fire'])).state}`,
    });
}

export function kickJob(job) {
    return question({
        title: `Bring ${name(job)} back`,
        says: [`It is dead${job.reason ? ` (${job.reason})` : ''} after ${count(job.attempts)} attempts. It is due now again, with its attempts at 0.`],
        action: 'Bring it back',
        run: async () => `It is ${(await post(['jobs', job.id, 'kick'])).state}`,
    });
}

export function rescheduleJob(job) {
    return question({
        title: `Reschedule ${name(job)}`,
        says: [`It is due ${fullMoment(job.due_ms)} now. Its id stays the same.`],
        fields: [field({name: 'delay', label: 'Due after', value: '', hint: 'from now, such as 2h'}),
                 field({name: 'at', label: 'or at', kind: 'moment', value: toInput(job.due_ms)})],
        action: 'Reschedule',
        async run({delay, at}) {
            const told = await ask('PATCH', ['jobs', job.id], {json: delay ? {delay} : {at: fromInput(at)}});

            return `Due ${fullMoment(told.due_ms)}`;
        },
    });
}

/* Only what differs is sent. An empty tag or ttl takes it away. */
export function editJob(job) {
    const text = job.body !== undefined;
    const before = {
        priority: String(job.priority), tag: job.tag ?? '', ttr: durationText(job.ttr_ms),
        ttl: durationText(job.ttl_ms), body: text ? job.body : job.body_base64,
    };

    return question({
        title: `Edit ${name(job)}`,
        says: [`It stays due ${fullMoment(job.due_ms)}.`],
        fields: [
            {name: 'priority', label: 'Priority', kind: 'number', value: before.priority},
            {name: 'tag', label: 'Tag', value: before.tag},
            {name: 'ttr', label: 'Time to run', value: before.ttr},
            {name: 'ttl', label: 'Time to live', value: before.ttl, hint: 'empty: for ever'},
            {name: text ? 'body' : 'body_base64', label: text ? 'Body' : 'Body, in base64', kind: 'area', value: before.body},
        ],
        action: 'Save',
        async run(values) {
            const json = {};

            for (const [key, value] of Object.entries(values)) {
                if (value !== (key === 'body_base64' ? before.body : before[key])) {
                    json[key] = key === 'priority' ? Number(value)
                        : value === '' && (key === 'tag' || key === 'ttl') ? null : value;
                }
            }
            if (Object.keys(json).length === 0) {
                return 'Nothing was changed';
            }
            await ask('PATCH', ['jobs', job.id], {json});
            return `Changed: ${Object.keys(json).join(', ')}`;
        },
    });
}

/* ---- all jobs that match a filter ---- */

/* The filter in words: "dead, in orders, tagged x, due 09:00:00 to 09:10:00". */
export function describe({state, topic, tag, due_from, due_to}) {
    const from = due_from ? fullMoment(Number(due_from)) : null;
    const to = due_to ? fullMoment(Number(due_to)) : null;

    return [
        state, topic ? `in ${topic}` : 'in all topics', tag ? `tagged ${tag}` : null,
        from && to ? `due from ${from} to ${to}` : from ? `due from ${from} on` : to ? `due before ${to}` : null,
    ].filter(Boolean).join(', ');
}

/* The server takes no change of simply everything. */
export function isNarrow({topic, tag, due_from, due_to}) {
    return Boolean(topic || tag || due_from || due_to);
}

async function matching(what, filter, more) {
    const told = await post(['jobs', what], {...filter, ...more, dry_run: 'true'});

    return {...told, text: told.more ? `at least ${jobs(told.matched)}` : jobs(told.matched)};
}

/* Until nothing is left; a call does a million at most. */
async function through(what, query, progress) {
    let done = 0;
    let told;
    let cursor;

    do {
        told = await post(['jobs', what], {...query, cursor});
        done += told.done;
        cursor = told.cursor;
        progress(`${jobs(done)} so far …`);
    } while (told.more);
    return done;
}

export async function cancelAll(filter) {
    const {matched, text} = await matching('cancel', filter);

    if (matched === 0) {
        return toast('No job matches');
    }
    return question({
        title: `Cancel ${text}`,
        says: [`Cancels ${text}: ${describe(filter)}. They are never handed out again. Those that a consumer has at the moment are left alone.`],
        action: `Cancel ${text}`, danger: true,
        run: async (_, progress) => `Cancelled ${jobs(await through('cancel', filter, progress))}`,
    });
}

export async function shiftAll(filter) {
    const {matched, text} = await matching('shift', filter, {by: '0'});

    if (matched === 0) {
        return toast('No job matches');
    }
    return question({
        title: `Shift ${text}`,
        says: [`Moves the due times of ${text}: ${describe(filter)}. Those that are reserved or dead are left alone.`],
        fields: [
            {name: 'by', label: 'By', value: '10m', hint: 'such as 10m, or -1h to make them earlier'},
            field({name: 'to', label: 'or all to', kind: 'moment'}),
        ],
        action: `Shift ${text}`,
        async run({by, to}, progress) {
            const done = await through('shift', {...filter, ...(to ? {to: fromInput(to)} : {by})}, progress);

            return `Shifted ${jobs(done)}`;
        },
    });
}

export async function kickAll(filter) {
    const query = {...filter, state: 'dead'};
    const {matched, text} = await matching('kick', query);

    if (matched === 0) {
        return toast('No dead job matches');
    }
    return question({
        title: `Bring ${text} back`,
        says: [`Redrives ${text}: ${describe(query)}. They are due now again, with their attempts at 0.`],
        action: `Bring ${text} back`,
        run: async (_, progress) => `Brought ${jobs(await through('kick', query, progress))} back`,
    });
}

/* Some dead jobs, one by one: those of one reason, say, for which the server has no filter. */
export function kickThese(list, what) {
    return question({
        title: `Bring ${jobs(list.length)} back`,
        says: [`Redrives the ${jobs(list.length)} on this page that ${what}. They are due now again, with their attempts at 0.`],
        action: `Bring ${jobs(list.length)} back`,
        async run(_, progress) {
            let done = 0;
            let gone = 0;

            for (const job of list) {
                await post(['jobs', job.id, 'kick']).then(() => done++, error => {
                    if (error.status !== 404 && error.status !== 409) {
                        throw error;
                    }
                    gone++;
                });
                progress(`${count(done)} of ${count(list.length)} …`);
            }
            return `Brought ${jobs(done)} back` + (gone ? `; ${count(gone)} had changed meanwhile` : '');
        },
    });
}

/* ---- topics ---- */

export function pauseTopic(topic) {
    return question({
        title: `Pause ${topic}`,
        says: ['Jobs become ready all the same, and wait.'],
        fields: [
            {name: 'what', label: 'What', kind: 'select', options: [['out', 'no hand-outs'], ['in', 'no pushes'], ['both', 'neither']]},
            {name: 'for', label: 'For', hint: 'such as 10m; empty: until it is resumed'},
        ],
        action: 'Pause',
        async run(values) {
            await post(['topics', topic, 'pause'], given(values));
            return `${topic} is paused`;
        },
    });
}

export function resumeTopic(topic) {
    return question({
        title: `Resume ${topic}`,
        says: ['Pushes and hand-outs go on at once.'],
        action: 'Resume',
        async run() {
            await post(['topics', topic, 'resume']);
            return `${topic} goes on`;
        },
    });
}

export async function purgeTopic(topic) {
    const t = await get(['topics', topic]);
    const all = t.delayed + t.ready + t.reserved + t.dead;

    return question({
        title: `Purge ${topic}`,
        says: [`Deletes all ${jobs(all)} of ${topic}: ${count(t.delayed)} delayed, ${count(t.ready)} ready, ${count(t.reserved)} reserved, ${count(t.dead)} dead. Leases are lost. The topic and its policy stay. This cannot be undone.`],
        action: `Delete ${jobs(all)}`, danger: true, type: topic,
        run: async () => `Deleted ${jobs((await post(['topics', topic, 'purge'])).purged)}`,
    });
}

export async function deleteTopic(topic) {
    const t = await get(['topics', topic]);
    const all = t.delayed + t.ready + t.reserved + t.dead;

    return question({
        title: `Delete the topic ${topic}`,
        says: [`Deletes its policy and its ${jobs(all)}. A later push makes it anew, with the default policy. This cannot be undone.`],
        action: 'Delete the topic', danger: true, type: topic,
        async run() {
            const told = await ask('DELETE', ['topics', topic], {query: {force: 'true'}});

            return `Deleted ${topic} and ${jobs(told.purged)}`;
        },
    });
}

/*
 * Takes a job as a consumer does, to look at it and to decide by hand: finish it, give it back, or
 * bury it. Who closes the dialog without a word gives it back, too.
 */
export async function takeJob(topic) {
    const told = await post(['topics', topic, 'reserve'], {ttr: '5m'});
    const job = told?.jobs[0];

    if (!job) {
        return toast(`No job of ${topic} is ready`);
    }
    const body = job.body ?? job.body_base64;
    const done = await question({
        title: `You have ${name(job)}`,
        says: [`It is attempt ${count(job.attempts)}. It is yours for ${duration(job.lease_ms)}; after that it goes back.`,
               el('pre', {class: 'body'}, body)],
        fields: [{name: 'what', label: 'And now', kind: 'select', options: [
            ['release', 'give it back, due at once'], ['ack', 'it is done: finish it'], ['bury', 'bury it: it is dead until it is brought back']]}],
        action: 'Do it',
        async run({what}) {
            await post(['jobs', job.id, what], {lease: job.lease, delay: what === 'release' ? '0' : ''});
            return {release: 'Given back', ack: 'Finished', bury: 'Buried'}[what];
        },
    });

    if (!done) {
        await post(['jobs', job.id, 'release'], {lease: job.lease, delay: '0'}).catch(() => {});
        toast('Given back');
    }
    return done;
}

/* ---- the test clock ---- */

export function advanceClock() {
    return question({
        title: 'Advance the test clock',
        says: [`It stands at ${fullMoment(now())}. All that falls into the time that passes happens in order.`],
        fields: [{name: 'by', label: 'By', value: '10m', needed: true}],
        action: 'Advance',
        run: async ({by}) => `It is ${fullMoment((await post(['clock', 'advance'], {by})).now_ms)}`,
    });
}

/* Buttons of which only those are shown that the token allows: [[role, text, fn, danger]]. */
export function actionBar(list, after = () => {}) {
    return el('div', {class: 'actions'}, list.filter(one => one && can(one[0])).map(([, text, fn, danger]) =>
        el('button', {type: 'button', class: danger ? 'danger' : null, onclick: async () => {
            try {
                if (await fn()) {
                    after();
                }
            } catch (error) {
                toast(error.message, true);
            }
        }}, text)));
}
