/*
 * What can be done, each with its question. The count in a question about many jobs comes from the
 * server (dry_run), at the moment of asking.
 */
import {ask, get, post, can, now, Refused} from './api.js';
import {el} from './dom.js';
import {question, field, toast} from './dialog.js';
import {count, jobs, duration, durationText, fullMoment, numberOf} from './format.js';

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
    return at ? {...rest, at} : {...rest, delay};
}

/* The body as text, or as base64 where it is none. */
function bodyField(job) {
    return job.body_base64 !== undefined ? {name: 'body_base64', label: 'Body, in base64', kind: 'area', value: job.body_base64}
        : {name: 'body', label: 'Body', kind: 'area', value: job.body ?? ''};
}

/* The bytes of what was typed. */
function bytesOf(base64) {
    try {
        return Uint8Array.from(atob(base64), c => c.charCodeAt(0));
    } catch {
        throw new Refused(400, {message: 'the body is not base64', field: 'body_base64'});
    }
}

/* like: a job whose body, byte for byte, and all else but its key are proposed. */
export function pushJob(topic = '', like = {}) {
    return question({
        title: 'Push a job',
        fields: [
            {name: 'topic', label: 'Topic', value: topic, needed: true},
            ...dueFields('10m'),
            {name: 'key', label: 'Key', value: '', hint: 'a name of its own, such as an order number', raw: true},
            {name: 'tag', label: 'Tag', value: like.tag ?? '', raw: true},
            {name: 'priority', label: 'Priority', kind: 'number', value: like.priority ?? '', hint: 'smaller first; 1024'},
            {name: 'ttr', label: 'Time to run', value: durationText(like.ttr_ms)},
            {name: 'ttl', label: 'Time to live', value: durationText(like.ttl_ms)},
            {name: 'retries', label: 'Retries', kind: 'number', value: like.retries ?? '', hint: 'after the first attempt; -1: no end'},
            {name: 'backoff', label: 'Backoff', value: like.backoff ?? '', hint: 'such as 4m,10m,1h'},
            {name: 'on_conflict', label: 'If the key is there', kind: 'select', options: ['error', 'replace', 'keep']},
            bodyField(like),
        ],
        action: 'Push',
        async run(values) {
            const {topic: to, body, body_base64: base64, on_conflict: conflict, ...rest} = dueOf(values);
            const made = await post(['topics', to, 'jobs'], given({...rest, on_conflict: rest.key && conflict}), {body: base64 === undefined ? body : bytesOf(base64)});

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

/* One that nobody has. */
export function buryJob(job) {
    return question({
        title: `Bury ${name(job)}`,
        says: [`It is ${job.state}, due ${fullMoment(job.due_ms)}. It is put among the dead: nobody gets it until it is brought back.`],
        action: 'Bury it', danger: true,
        run: async () => `Buried: it is ${(await post(['jobs', job.id, 'bury'], {force: 'true'})).state}`,
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
    const moment = field({name: 'at', label: 'or at', kind: 'moment', value: job.due_ms, hint: 'if changed, this counts'});

    return question({
        title: `Reschedule ${name(job)}`,
        says: [`It is due ${fullMoment(job.due_ms)} now. Its id stays the same.`],
        fields: [field({name: 'delay', label: 'Due after', value: '', hint: 'from now, such as 2h'}), moment],
        action: 'Reschedule',
        async run({delay, at}) {
            if (!moment.changed() && !delay) {
                return 'Nothing was changed';
            }
            const told = await ask('PATCH', ['jobs', job.id], {json: moment.changed() ? {at} : {delay}});

            return `Due ${fullMoment(told.due_ms)}`;
        },
    });
}

/* Only what was changed is sent. An empty tag or ttl takes it away; an empty priority is refused. */
export function editJob(job) {
    const fields = [
        {name: 'priority', label: 'Priority', kind: 'number', value: job.priority},
        {name: 'tag', label: 'Tag', value: job.tag ?? '', raw: true},
        {name: 'ttr', label: 'Time to run', value: durationText(job.ttr_ms)},
        {name: 'ttl', label: 'Time to live', value: durationText(job.ttl_ms), hint: 'empty: none'},
        bodyField(job),
    ].map(field);

    return question({
        title: `Edit ${name(job)}`,
        says: [`It stays due ${fullMoment(job.due_ms)}.`],
        fields,
        action: 'Save',
        async run() {
            const json = {};

            for (const one of fields.filter(f => f.changed())) {
                const text = one.read();

                json[one.name] = one.name === 'priority' ? numberOf(text)
                    : text === '' && (one.name === 'tag' || one.name === 'ttl') ? null : text;
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

/* A change leaves jobs of the other states alone, though they match. */
const CHANGES = {cancel: ['delayed', 'ready', 'dead'], shift: ['delayed', 'ready'], kick: ['dead']};

/* How many jobs it would change: those of the states that it can change, and no others. */
async function matching(what, filter, more) {
    const states = filter.state ? CHANGES[what].filter(state => state === filter.state) : CHANGES[what];
    let matched = 0;
    let least = '';

    for (const state of states) {
        const told = await post(['jobs', what], {...filter, ...more, state, dry_run: 'true'});

        matched += told.matched;
        least = told.more ? 'at least ' : least;
    }
    return {matched, text: least + jobs(matched)};
}

/*
 * Until nothing is left, or it is stopped; a call does a million at most. What a call cannot change
 * the next one could not either: then that is the end. Gives the text that is told.
 */
async function through(what, done, query, progress, signal) {
    let number = 0;
    let cursor;

    for (;;) {
        const before = cursor;
        let told;

        try {
            told = await post(['jobs', what], {...query, cursor});
        } catch (error) {
            if (number > 0) {
                error.message = `${done} ${jobs(number)}; then: ${error.message}`;
            }
            throw error;
        }
        number += told.done;
        cursor = told.cursor;
        if (!told.more || (told.done === 0 && (!cursor || cursor === before))) {
            return `${done} ${jobs(number)}` + (told.more ? '; the others cannot be changed now' : '');
        }
        if (signal.aborted) {
            return `Stopped: ${done.toLowerCase()} ${jobs(number)}, and there are more`;
        }
        progress(`${done} ${jobs(number)} so far …`);
    }
}

export async function cancelAll(filter) {
    const {matched, text} = await matching('cancel', filter);

    if (matched === 0) {
        return toast('No job matches that could be cancelled');
    }
    return question({
        title: `Cancel ${text}`,
        says: [`Cancels ${text}: ${describe(filter)}. They are never handed out again. Those that a consumer has at the moment are left alone, and not counted here.`],
        action: `Cancel ${text}`, danger: true, stops: true,
        run: (_, progress, signal) => through('cancel', 'Cancelled', filter, progress, signal),
    });
}

export async function shiftAll(filter) {
    const {matched, text} = await matching('shift', filter, {by: '0'});

    if (matched === 0) {
        return toast('No job matches that could be shifted');
    }
    return question({
        title: `Shift ${text}`,
        says: [`Moves the due times of ${text}: ${describe(filter)}. Those that are reserved or dead are left alone, and not counted here.`],
        fields: [
            {name: 'by', label: 'By', value: '10m', hint: 'such as 10m, or -1h to make them earlier'},
            field({name: 'to', label: 'or all to', kind: 'moment'}),
        ],
        action: `Shift ${text}`, stops: true,
        run: ({by, to}, progress, signal) => through('shift', 'Shifted', {...filter, ...(to ? {to} : {by})}, progress, signal),
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
        says: [`Brings ${text} back: ${describe(query)}. They are due now again, with their attempts at 0.`],
        action: `Bring ${text} back`, stops: true,
        run: (_, progress, signal) => through('kick', 'Brought back', query, progress, signal),
    });
}

/* Some dead jobs, one by one: those of one reason, say, for which the server has no filter. */
export function kickThese(list, what, where) {
    return question({
        title: `Bring ${jobs(list.length)} back`,
        says: [`Brings back the ${jobs(list.length)} ${where} that ${what}. They are due now again, with their attempts at 0.`],
        action: `Bring ${jobs(list.length)} back`, stops: true,
        async run(_, progress, signal) {
            let done = 0;
            let gone = 0;

            for (const job of list) {
                if (signal.aborted) {
                    return `Stopped: brought back ${count(done)} of ${jobs(list.length)}`;
                }
                await post(['jobs', job.id, 'kick']).then(() => done++, error => {
                    if (error.status !== 404 && error.status !== 409) {
                        throw error;
                    }
                    gone++;
                });
                progress(`${count(done)} of ${count(list.length)} …`);
            }
            return `Brought back ${jobs(done)}` + (gone ? `; ${count(gone)} had changed meanwhile` : '');
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

/* Gives a job back that we hold, and tells what has become of it. */
async function giveBack(job) {
    const told = await post(['jobs', job.id, 'release'], {lease: job.lease, delay: '0'});

    return told.state === 'dead' ? 'Given back; it is dead: that was its last attempt' : 'Given back';
}

/*
 * Takes a job as a consumer does, to look at it and to decide by hand: finish it, give it back, or
 * bury it. Who closes the dialog without a word gives it back, too.
 */
export async function takeJob(topic) {
    let job;

    const taken = await question({
        title: `Take a job of ${topic}`,
        says: ['Takes the next one that is ready, as a consumer does: nobody else gets it for five minutes, and it counts as an attempt. Then you see it, and say what becomes of it.'],
        action: 'Take it',
        async run() {
            job = (await post(['topics', topic, 'reserve'], {ttr: '5m'}))?.jobs[0];
            return job ? `Took ${name(job)}` : `No job of ${topic} is ready`;
        },
    });

    if (!taken || !job) {
        return false;
    }
    const last = job.retries >= 0 && job.attempts > job.retries;
    const done = await question({
        title: `You have ${name(job)}`,
        says: [`It is attempt ${count(job.attempts)}. It is yours for ${duration(job.lease_ms)}; after that it goes back.`,
               last ? 'This is its last attempt: if it goes back, or you close this, it is dead.' : null,
               el('pre', {class: 'body'}, job.body ?? job.body_base64)].filter(Boolean),
        fields: [{name: 'what', label: 'And now', kind: 'select', options: [
            ['release', last ? 'give it back: it is dead then' : 'give it back, due at once'], ['ack', 'it is done: finish it'],
            ['bury', 'bury it: it is dead until it is brought back']]}],
        action: 'Do it',
        async run({what}) {
            if (what === 'release') {
                return giveBack(job);
            }
            await post(['jobs', job.id, what], {lease: job.lease});
            return what === 'ack' ? 'Finished' : 'Buried';
        },
    });

    if (!done) {
        await giveBack(job).then(toast, error => toast(`It could not be given back: ${error.message}`, true));
    }
    return true;
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
