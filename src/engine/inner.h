#ifndef TR_ENGINE_INNER_H
#define TR_ENGINE_INNER_H

/*
 * The inside of struct tr_engine, for the files that together are the engine's loop:
 *
 *     engine.c    requests, turns, completions: who is called when
 *     change.c    requests that change jobs: record, log, state, schedule
 *     handout.c   reserve, waiters, leases; holder.c who holds what
 *     advance.c   the test clock moves
 *     occur.c     schedules make jobs
 *     nearest.c   when the next job of a topic is due
 *     retry.c     what becomes of those that were not finished
 *     limit.c     how many are handed out, and how fast
 *     expiry.c    what is not handed out in time
 *     past.c      what happened to a job
 *     lookup.c    jobs that are named by key
 *     view.c      requests that only look; forecast.c how many jobs are due when
 *     read.c      bodies that are not in memory
 *     load.c      what leaves memory and what comes back
 *     policies.c  policies of topics
 *     park.c      topics with more due jobs than memory is for
 *     refill.c    the next jobs of such a topic
 *     fetch.c     the same from run files
 *     deaths.c    dead jobs that are not in memory
 *     drop.c      those of them that are dead for too long, or too many
 *     walk.c      through the index of all groups, for one topic
 *     list.c      the jobs of a topic in order, page by page
 *     purge.c     all jobs of a topic die at once
 *     bulk.c      many are cancelled, shifted or kicked
 *     damage.c    what is known to be damaged; mend.c blocks of runs that are
 *     scrub.c     reads the files of groups now and then, to find damage early
 *     promote*.c  from slots to run files
 *     merge*.c    groups in which much has died, or too many of them
 *     retire.c    groups of run files in which nothing is alive
 *     meta.c      checkpoints and manifests
 *     rest.c      what is done when there is nothing to do
 *     gauges.c    how it goes: what is told to those who watch
 *     space.c     the ring: growing, freeing, writing live records again
 *     recover.c   opening; regroup.c the groups, replay.c the log; close.c closing
 *
 * Everything below them (job, far, group, topic, state, log, wheel, clock, codecs) does not know
 * this header.
 */

#include "engine/parts.h"

struct tr_engine {
    struct tr_engine_config config;
    struct tr_mem *mem;
    struct tr_disk disk;
    struct tr_overlay *overlay; /* read-only: what of groups was made again; NULL: nothing */
    struct tr_rng rng;
    struct tr_state state;
    struct tr_log log;
    struct tr_meta meta;
    struct tr_space space;
    struct tr_load load;
    struct tr_groups groups;
    struct tr_fetch fetch;
    struct tr_refill refill;
    struct tr_count count;
    struct tr_promote promote;
    struct tr_pace pace;
    struct tr_merge merge;
    struct tr_retire retire;
    struct tr_listing listing;
    struct tr_purge purge;
    struct tr_forecast forecast;
    struct tr_bulk bulk;
    struct tr_deaths deaths;
    struct tr_backup backup;
    struct tr_damage damage;
    struct tr_mend mend;
    struct tr_scrub scrub;
    struct tr_clock clock;
    struct tr_advance advance;
    struct tr_occur occur;
    struct tr_nearest nearest;
    struct tr_histories histories;
    struct tr_past past;
    struct tr_past_file past_file;
    struct tr_gauges gauges;
    uint32_t actor; /* of the request that is being executed; 0: not known, or there is none */
    struct tr_now now;

    struct tr_wheel due;      /* delayed jobs, by T, */
    struct tr_wheel crowd;    /* and those of topics that have very many */
    struct tr_wheel leases;   /* reserved jobs, by the clock of spans (tr_clock_span) */
    struct tr_wheel waits;    /* waiting reserves, by boot time, */
    struct tr_wheel warns;    /* and when they are warned of a lease, by that of spans */
    struct tr_wheel pauses;   /* paused topics, by that of spans, */
    struct tr_wheel resumes;  /* and those that their policy holds back, by T */
    struct tr_wheel tokens;   /* topics that may hand out again then, by that of spans */
    struct tr_wheel expiries; /* ready jobs with a ttl, by T */
    struct tr_wheel drops;    /* topics with dead jobs, by T */
    struct tr_wheel edges;    /* parked topics, by T */
    struct tr_map holders;
    struct tr_list dirty;   /* topics in which a waiter may get something */
    struct tr_list waiting; /* struct tr_wait */
    uint64_t wait_count;    /* those that stand in line */
    struct tr_list reads;
    unsigned read_count;
    struct tr_req *stalled_first; /* requests that wait for the log, the disk or their next slice */
    struct tr_req *stalled_last;

    uint64_t epoch;
    uint64_t next_lease;
    uint64_t rid_limit; /* rids below it are promised by a durable manifest (R18) */
    uint64_t told_durable;
    unsigned work; /* units left in this slice */
    bool cut;      /* somebody wanted more than his half of it */
    uint64_t work_max;
    uint64_t replayed;
    bool placing;        /* the batch in log.flight is written, and its records get their places */
    size_t place_next;   /* from this one of its list on */
    bool inside;         /* a call from outside is under way; `done` may make another */
    bool blocked;        /* something due could not be logged in this turn */
    bool leases_blocked; /* ... and it was a lease that has run out, */
    bool expiry_blocked; /* or a job that is over */
    bool drop_waits;     /* the first dead job of a topic is on its way, or cannot be logged */
    bool moved;          /* in this turn: a batch was closed, or a stalled request came to an end */
    bool failed;
    bool draining;
    bool trimming;     /* it is idle, and memory is given back: */
    size_t trim;       /* chunks of jobs before this one are to be looked at */
    bool refusing;     /* for lack of space, since some push */
    bool was_clean;    /* the store was closed in order */
    uint64_t stood_us; /* T to which the store was served before this start, as far as is known, */
    uint64_t began_us; /* and at this start */
    bool no_counts;    /* the checkpoints that were there at the start do not count topics */

    uint64_t commit_us;      /* boot: when the batch in flight went; */
    uint64_t commit_took;    /* how long the last one took; */
    uint64_t linger_at;      /* until when the next one waits, */
    uint64_t linger_changes; /* and for how many, */
    unsigned linger_turn;    /* which turn after a commit comes next; 0: a later one */
    uint64_t lazy_at;        /* boot times of one-shot deadlines, or TR_NEVER */
    uint64_t seal_at;
    uint64_t sync_at;
    uint64_t checkpoint_at;
    uint64_t idle_at;
    uint64_t calm_at; /* the world was not told yet, as a job was about to be due: again then */
};

/* What executing a request came to. */
enum tr_verdict {
    TR_DONE,  /* completed */
    TR_WAITS, /* somebody else has it now */
    TR_STALL, /* cannot go on before the next turn */
};

/* engine.c */
enum tr_verdict tr_engine_finish(struct tr_engine *e, struct tr_req *r, int status);
void tr_engine_stall(struct tr_engine *e, struct tr_req *r);
void tr_engine_fail(struct tr_engine *e, const char *why);
void tr_engine_tell_durable(struct tr_engine *e);
void tr_engine_note(const struct tr_engine *e, enum tr_notice kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
struct tr_base tr_engine_base(const struct tr_engine *e);
void tr_engine_touch_log(struct tr_engine *e); /* something was appended: arm the deadlines */
bool tr_engine_spend(struct tr_engine *e);     /* one unit of work; false: none is left */
bool tr_engine_charge(struct tr_engine *e, unsigned units); /* something longer; the same */
void tr_engine_place(struct tr_engine *e);                  /* a slice of it */

/* close.c */
void tr_engine_close_files(struct tr_engine *e); /* all that are open; the lock goes last */

/* change.c */
enum tr_verdict tr_change_execute(struct tr_engine *e, struct tr_req *r);
void tr_change_schedule(struct tr_engine *e, struct tr_job *job); /* by its durable fields and T */
/* The same for one that comes (back) into memory, and may have been ready long before. */
void tr_change_bring(struct tr_engine *e, struct tr_job *job);
void tr_change_unschedule(struct tr_engine *e, struct tr_job *job); /* out of lists and wheels */
void tr_change_drop_topic(struct tr_engine *e,
                          struct tr_topic *t); /* if nothing needs it any more */
/* Its name goes to the log, if it is not there: a head of bytes, a record. */
void tr_change_log_topic(struct tr_engine *e, struct tr_topic *t);
/* The job, near or far and in no list, is dead; the log has room for it. Its topic may be gone,
 * too, after that. What a purge left gates nobody, and is not counted as deleted. */
void tr_change_kill(struct tr_engine *e, const struct tr_kill *kill, enum tr_why why);
/* Changes what rec names. TARRY_EFULL: not now. */
TR_MUST_USE int tr_change_revise(struct tr_engine *e, struct tr_job *job, struct tr_record *rec,
                                 bool gated);
/* There is a cell for what it becomes: nothing but the log stands in its way. rec names its kind.
 */
TR_MUST_USE int tr_change_fits(struct tr_engine *e, const struct tr_job *job,
                               struct tr_record *rec);
void tr_change_fire_due(struct tr_engine *e);
/* A topic stays without a job from now on, at the cost of the one kept longest; no longer. */
void tr_change_keep_topic(struct tr_engine *e, struct tr_topic *t);
void tr_change_let_go_topic(struct tr_engine *e, struct tr_topic *t);
/* It was ready since then and, unless it is due later now, has been all the time. */
void tr_change_still_ready(struct tr_job *job, uint64_t since_us);
/* A new job, if policy, space and memory allow it, with room in the log for so many bytes more.
 * TARRY_EFULL: not now; TARRY_EPAUSED, TARRY_EQUOTA, TARRY_ENOMEM, TARRY_ENOSPC, TARRY_EDRAINING.
 */
TR_MUST_USE int tr_change_push(struct tr_engine *e, struct tr_req *r, struct tr_topic *t,
                               size_t more);
void tr_change_note_late(struct tr_engine *e, const struct tr_job *job); /* it became ready */

/* policies.c */
enum tr_verdict tr_policies_execute(struct tr_engine *e, struct tr_req *r);
/* The one who has the topic's name after a purge has its policy, too. First what it takes in the
 * log, then that. TARRY_ENOMEM: nothing changed. */
void tr_policies_begin(struct tr_engine *e);                   /* after the replay */
void tr_policies_step(struct tr_engine *e);                    /* pauses that have ended */
void tr_policies_end(struct tr_engine *e, struct tr_topic *t); /* it is about to be purged */
/* May a job be pushed to the topic? `fresh`: it takes the place of none. TARRY_EPAUSED,
 * TARRY_EQUOTA. */
TR_MUST_USE int tr_policies_admit(const struct tr_engine *e, const struct tr_topic *t, bool fresh);
/* May it have a body of so many bytes more, and so many less? TARRY_EQUOTA. */
TR_MUST_USE int tr_policies_admit_bytes(const struct tr_topic *t, uint64_t more, uint64_t less);
/* So much later than asked for a job that is pushed is due. */
uint64_t tr_policies_jitter(struct tr_engine *e, const struct tr_topic *t);
size_t tr_policies_log_bytes(const struct tr_topic *t);
TR_MUST_USE int tr_policies_inherit(struct tr_engine *e, const struct tr_topic *t,
                                    struct tr_topic *heir);

/* handout.c */
enum tr_verdict tr_handout_execute(struct tr_engine *e, struct tr_req *r);
bool tr_handout_held_by(const struct tr_job *job, const struct tr_req *r);
void tr_handout_unhold(struct tr_engine *e, struct tr_job *job);
void tr_handout_mark(struct tr_engine *e, struct tr_topic *t);
void tr_handout_serve(struct tr_engine *e);
void tr_handout_expire(struct tr_engine *e);
void tr_handout_cancel_wait(struct tr_engine *e, struct tr_req *r);
void tr_handout_free_waits(struct tr_engine *e); /* the engine ends: memory only */
void tr_handout_fail(struct tr_engine *e);       /* all that wait hear TARRY_EIO */
void tr_handout_undo(struct tr_engine *e, uint64_t id, uint64_t lease);
void tr_handout_restore(struct tr_engine *e, struct tr_job *job); /* a lease found at the start */
bool tr_handout_ok(const struct tr_engine *e);
void tr_handout_body(struct tr_engine *e, struct tr_read *read, struct tr_job *same, int status);

/* holder.c */
struct tr_holder *tr_holder_get(struct tr_engine *e, uint64_t number); /* NULL: no memory */
void tr_holder_drop_empty(struct tr_engine *e, uint64_t number);       /* if it is */
void tr_holder_add(struct tr_holder *h, struct tr_job *job);
/* Somebody has the job now, or has it for another time. */
void tr_holder_lease_begins(struct tr_engine *e, struct tr_job *job);
/* When r is to be warned, as things are, or TR_NEVER. TARRY_EFULL: go on in the next slice. */
TR_MUST_USE int tr_holder_next_warning(struct tr_engine *e, const struct tr_req *r,
                                       uint64_t *at_us);

/* occur.c */
enum tr_verdict tr_occur_execute(struct tr_engine *e, struct tr_req *r);
void tr_occur_init(struct tr_engine *e);
TR_MUST_USE int tr_occur_begin(struct tr_engine *e); /* after the replay */
void tr_occur_step(struct tr_engine *e);
uint64_t tr_occur_next(const struct tr_engine *e); /* boot: when it wants a turn */
/* T: when something is to happen; not after T: it has not happened yet. */
uint64_t tr_occur_event(const struct tr_engine *e);
/* With a test clock: T when held ones are tried, which is no reason to try them once more. */
uint64_t tr_occur_retries(const struct tr_engine *e);
void tr_occur_hope(struct tr_engine *e);    /* something happens that may free some of them */
bool tr_occur_retry(struct tr_engine *e);   /* they are tried now; false: there are none */
void tr_occur_changed(struct tr_engine *e); /* a topic's policy has */
void tr_occur_clock(struct tr_engine *e);   /* T has jumped ahead */
/* This job is dead or about to be gone; there is room in the log for TR_SCHED_STEP_MAX more. */
void tr_occur_ended(struct tr_engine *e, uint64_t id);
void tr_occur_purged(struct tr_engine *e);                       /* a topic was */
void tr_occur_drop(struct tr_engine *e, const struct tr_req *r); /* if it is being answered */
void tr_occur_fini(struct tr_engine *e);

/* advance.c */
enum tr_verdict tr_advance_execute(struct tr_engine *e, struct tr_req *r);
void tr_advance_step(struct tr_engine *e);
bool tr_advance_goes_on(const struct tr_engine *e); /* it wants a turn */
void tr_advance_abandon(struct tr_engine *e, const struct tr_req *r);
void tr_advance_fail(struct tr_engine *e);
/*
 * Where a test clock stands after a replay: where it stood, or later, if the config says that time
 * went by while nobody had the store open; never back, and not for those who only look. start_us
 * is for a store that does not know. Then tr_advance_open notes it, if the log does not have it.
 */
uint64_t tr_advance_begin(const struct tr_engine *e, uint64_t start_us);
TR_MUST_USE int tr_advance_open(struct tr_engine *e);

/* past.c */
void tr_past_pushed(struct tr_engine *e, const struct tr_job *job);
void tr_past_handed(struct tr_engine *e, const struct tr_job *job, uint32_t actor);
void tr_past_touched(struct tr_engine *e, const struct tr_job *job);
void tr_past_left(struct tr_engine *e, const struct tr_job *job); /* by who held it */
/* It was revised by rec; its counters before that. */
void tr_past_revised(struct tr_engine *e, const struct tr_job *job, const struct tr_record *rec,
                     const struct tr_counters *was);
void tr_past_gone(struct tr_engine *e, const struct tr_kill *kill, enum tr_why why); /* about to */
enum tr_verdict tr_past_execute(struct tr_engine *e, struct tr_req *r);
void tr_past_drop(struct tr_engine *e, const struct tr_req *r); /* if it is being answered */
/* past_file.c: before serving, after it. `clean`: the last end was in order. */
void tr_past_load(struct tr_engine *e, bool clean);
void tr_past_save(struct tr_engine *e);
void tr_past_step(struct tr_engine *e);
void tr_past_io_done(struct tr_engine *e, const struct tr_io *io);
uint64_t tr_past_next(const struct tr_engine *e); /* boot: when it wants a turn */
void tr_past_fini(struct tr_engine *e);

/* nearest.c */
/* When the first delayed job of a topic is due, or 0: it has none. TARRY_EFULL: ask again, with the
 * same *since, which is 0 at first. */
TR_MUST_USE int tr_nearest_due(struct tr_engine *e, struct tr_topic *t, uint64_t *since,
                               uint64_t *due_us);
/* The same of what is known without a search, and about right with very many; 0: it is not. */
uint64_t tr_nearest_known(const struct tr_engine *e, const struct tr_topic *t);
void tr_nearest_look(struct tr_engine *e); /* for what is not known, of some topics with meters */
void tr_nearest_step(struct tr_engine *e);
bool tr_nearest_goes_on(const struct tr_engine *e); /* it wants a turn */
void tr_nearest_fini(struct tr_engine *e);

/* view.c */
enum tr_verdict tr_view_execute(struct tr_engine *e, struct tr_req *r);
bool tr_view_only(const struct tr_req *r); /* it leaves the store as it is */
enum tr_verdict tr_view_topic(struct tr_engine *e, struct tr_req *r); /* STAT_TOPIC */
void tr_view_fill(const struct tr_engine *e, const struct tr_job *job, struct tr_job_view *v);
void tr_view_extra(struct tr_job_view *v, const struct tr_extra *x); /* which it borrows */
void tr_view_body(struct tr_engine *e, struct tr_read *read, struct tr_job *job, int status);

/* lookup.c */
/* The live job of the topic with this key, as tr_load_by_id. */
TR_MUST_USE int tr_lookup_key(struct tr_engine *e, const struct tr_topic *t, struct tr_bytes key,
                              struct tr_job **job);
/* If r names its job by key: sets its id. The same codes; TARRY_OK also when it does not. */
TR_MUST_USE int tr_lookup_resolve(struct tr_engine *e, struct tr_req *r);
void tr_lookup_tidy(struct tr_engine *e); /* a slice */

/* read.c */
/* Makes a read of the job's record; it is sent, or dropped. TARRY_EFULL: too many are in flight. */
TR_MUST_USE int tr_read_new(struct tr_engine *e, const struct tr_job *job, struct tr_read **read);
void tr_read_send(struct tr_engine *e, struct tr_read *read, struct tr_job *job, struct tr_req *r);
TR_MUST_USE int tr_read_start(struct tr_engine *e, struct tr_job *job, struct tr_req *r,
                              bool relog);
/* The same for a far job, without a request. */
TR_MUST_USE int tr_read_start_far(struct tr_engine *e, uint64_t rid,
                                  const struct tr_far_entry *entry);
/* The same for list.c; index: of the job in its page. */
TR_MUST_USE int tr_read_start_listed(struct tr_engine *e, uint64_t rid,
                                     const struct tr_far_entry *entry, uint32_t index);
void tr_read_done(struct tr_engine *e, struct tr_read *read);
/* The record cannot be read: slot, off and len say which. */
void tr_read_report(struct tr_engine *e, uint64_t id, uint32_t topic, uint64_t due_us,
                    const struct tr_read *read);
void tr_read_free_all(struct tr_engine *e);

/* load.c */
void tr_load_open(struct tr_engine *e);  /* before the replay */
void tr_load_begin(struct tr_engine *e); /* after it */
void tr_load_step(struct tr_engine *e);
uint64_t tr_load_next(const struct tr_engine *e);  /* boot: when it wants a turn */
uint64_t tr_load_event(const struct tr_engine *e); /* T: when it wants to look for far jobs */
/* All that is due before that is here, unless it cannot be read or its topic is parked. */
bool tr_load_settled(const struct tr_engine *e);
/* The job with this id, brought back if need be. TARRY_EFULL: it is on its way, ask again; else it
 * is in *job, or TARRY_ENOTFOUND, TARRY_EDAMAGED (it cannot be read), TARRY_ENOMEM, TARRY_ENOSPC.
 */
TR_MUST_USE int tr_load_by_id(struct tr_engine *e, uint64_t id, struct tr_job **job);
TR_MUST_USE int tr_load_by_rid(struct tr_engine *e, uint64_t rid, struct tr_job **job);
/* If the job that r names is far: fills in what is known without reading. */
bool tr_load_show_far(const struct tr_engine *e, struct tr_req *r);
/* The first delayed job of a topic, or NULL, in the same way. */
TR_MUST_USE int tr_load_first(struct tr_engine *e, struct tr_topic *t, struct tr_job **job);
/* No far job of its topic can be due before it, the first delayed one in memory. */
bool tr_load_is_first(const struct tr_engine *e, const struct tr_job *job);
/* What would come first may be among those that cannot be read; dead: of dead ones. */
bool tr_load_unsure(const struct tr_engine *e, const struct tr_topic *t, bool dead);
bool tr_load_may_go(const struct tr_job *job); /* its record says all of it */
bool tr_load_far(const struct tr_engine *e, const struct tr_job *job); /* need not be in memory */
/* If it need not be. False: there is no memory for that; it stands last in its list now. */
bool tr_load_send_far(struct tr_engine *e, struct tr_job *job);
/* Its record has its place. True: it left memory. */
bool tr_load_placed(struct tr_engine *e, struct tr_job *job);
/* A record has come. TARRY_ENOTFOUND: it is not the one any more. */
void tr_load_done(struct tr_engine *e, const struct tr_read *read, int status);
/* Asks for the record of a far job. TARRY_EFULL: later; TARRY_ENOMEM, TARRY_ENOSPC: when others are
 * gone. */
TR_MUST_USE int tr_load_start(struct tr_engine *e, uint64_t rid);

/* A job that only its run knows gets an entry. TARRY_EFULL: soon; TARRY_OK: it needs none, or there
 * is no such job. */
TR_MUST_USE int tr_load_locate(struct tr_engine *e, uint64_t id);
void tr_load_later(struct tr_engine *e); /* something could not be loaded now, */
void tr_load_bad(struct tr_engine *e);   /* or not be read */
/* A far job comes back with this record; it has an entry. */
TR_MUST_USE int tr_load_take(struct tr_engine *e, uint64_t rid, const struct tr_record *rec);
/* One of the first of the topic that is looked for. False: it is not among them. */
bool tr_load_pull(struct tr_engine *e, struct tr_pulled p);

/* Runs that the search may have passed, or what it found in them, are elsewhere now. */
void tr_load_pull_again(struct tr_engine *e);
/* park.c */
bool tr_edge_before(struct tr_edge a, struct tr_edge b);
void tr_park_placed(struct tr_engine *e, const struct tr_job *job); /* its record has a place */
bool tr_park_behind(const struct tr_job *job);                      /* the edge of its topic */
bool tr_park_away(const struct tr_job *job); /* due before the horizon, and yet to be far */
/* The sweep has found this far job. True: it stays far. */
bool tr_park_leave(struct tr_engine *e, uint32_t topic, struct tr_edge far);
/* This far job is due before the horizon: its topic is parked from now on, if it was not. */
void tr_park_note(struct tr_engine *e, struct tr_topic *t, struct tr_edge far);
void tr_park_met(const struct tr_job *job);                /* the same, in the replay; */
void tr_park_begin(struct tr_engine *e);                   /* after it */
void tr_park_end(struct tr_engine *e, struct tr_topic *t); /* no far job is, */
void tr_park_set_edge(struct tr_engine *e, struct tr_topic *t, struct tr_edge edge); /* or these */
void tr_park_step(struct tr_engine *e);
bool tr_park_busy(const struct tr_engine *e);
bool tr_park_counted(struct tr_engine *e); /* what is due of parked topics; false: ask again */
/* A refill is about to bring jobs of it that are due. */
bool tr_park_coming(const struct tr_engine *e, const struct tr_topic *t);

/* refill.c */
TR_MUST_USE int tr_refill_init(struct tr_engine *e);
void tr_refill_fini(struct tr_engine *e);
void tr_refill_note(struct tr_engine *e, struct tr_edge far); /* one of its topic that is left */
void tr_refill_step(struct tr_engine *e);
bool tr_refill_may_begin(const struct tr_engine *e); /* the last one did not fail just now */
bool tr_refill_owns(const struct tr_engine *e, const struct tr_io *io);
void tr_refill_io_done(struct tr_engine *e, struct tr_io *io);
uint64_t tr_refill_next(const struct tr_engine *e);

/* fetch.c */
void tr_fetch_read_page(struct tr_engine *e, struct tr_fetch_read *r);
/* The page that came. TARRY_EFULL: it is read once more; TARRY_EDAMAGED: it was reported. */
TR_MUST_USE int tr_fetch_view(struct tr_engine *e, struct tr_fetch_read *r, struct tr_side_view *v);
struct tr_far_entry tr_fetch_entry(const struct tr_group *g, const struct tr_side_job *job);
struct tr_group *tr_fetch_group_after(const struct tr_engine *e, uint64_t after);
TR_MUST_USE int tr_fetch_init(struct tr_engine *e);
void tr_fetch_fini(struct tr_engine *e);
/* TARRY_EFULL: it is on its way; TARRY_ENOTFOUND; TARRY_EDAMAGED: it cannot be found. */
TR_MUST_USE int tr_fetch_locate(struct tr_engine *e, uint64_t rid);
TR_MUST_USE int tr_fetch_locate_now(struct tr_engine *e, uint64_t rid); /* before serving */
TR_MUST_USE int tr_fetch_find_now(struct tr_engine *e, uint64_t rid, struct tr_far_entry *entry);
/* The record of a far job that has an entry, from its bytes. */
TR_MUST_USE int tr_fetch_decode(struct tr_engine *e, uint64_t rid, const uint8_t *bytes,
                                struct tr_record *rec);
/* A page or block cannot be read; it is tried again later. */
void tr_fetch_report(struct tr_engine *e, struct tr_group *g, enum tr_group_file file,
                     uint64_t off);
/* The same for any entry. */
TR_MUST_USE int tr_fetch_decode_at(const struct tr_engine *e, uint64_t rid,
                                   const struct tr_far_entry *entry, const uint8_t *bytes,
                                   struct tr_record *rec);
/* What the index of a group says, as an entry. */
struct tr_far_entry tr_fetch_entry(const struct tr_group *g, const struct tr_side_job *job);
void tr_fetch_unlocate(struct tr_engine *e, uint64_t rid);
void tr_fetch_remember(struct tr_engine *e, uint64_t rid); /* it was located: to go after a while */
void tr_fetch_again(struct tr_engine *e,
                    const struct tr_group *g); /* something of it came or left */
void tr_fetch_left(struct tr_engine *e, const struct tr_job *job); /* it is about to leave memory */
void tr_fetch_replaced(struct tr_engine *e); /* a merge put one group in the place of others */
void tr_fetch_rewind(struct tr_engine *e);   /* every block may have something for the sweep */
void tr_fetch_sweep_begin(struct tr_engine *e);
bool tr_fetch_sweep(struct tr_engine *e);           /* a slice; true: all is done */
bool tr_fetch_may_pause(const struct tr_engine *e); /* between two blocks of overdue jobs */
void tr_fetch_pull_begin(struct tr_engine *e,
                         uint64_t from_us); /* due times before it are loaded */
bool tr_fetch_pull(struct tr_engine *e);
bool tr_fetch_owns(const struct tr_engine *e, const struct tr_io *io);
void tr_fetch_io_done(struct tr_engine *e, struct tr_io *io);
void tr_fetch_step(struct tr_engine *e);
uint64_t tr_fetch_next(const struct tr_engine *e);

/* walk.c */
/* TARRY_EFULL: not yet; TARRY_ENOMEM. */
/* The dead ones alone, from this dead_seq on. */
TR_MUST_USE int tr_walk_begin_dead(struct tr_engine *e, struct tr_walk *w, uint32_t topic,
                                   uint64_t from);
TR_MUST_USE int tr_walk_begin(struct tr_engine *e, struct tr_walk *w, uint32_t topic,
                              uint64_t from_us);
/* Jobs of all topics, live ones from this due time on, and dead ones, or dead ones alone. */
TR_MUST_USE int tr_walk_begin_every(struct tr_engine *e, struct tr_walk *w, uint64_t from_us);
TR_MUST_USE int tr_walk_begin_every_dead(struct tr_engine *e, struct tr_walk *w);
/* The next entry. TARRY_EFULL: a page is on its way; TARRY_ENOTFOUND: that was the last. */
TR_MUST_USE int tr_walk_next(struct tr_engine *e, struct tr_walk *w, struct tr_side_job *job);
void tr_walk_again(struct tr_walk *w); /* the last one is to be told once more */
void tr_walk_skip(struct tr_walk *w);  /* the rest of the group */
void tr_walk_end(struct tr_walk *w);
void tr_walk_fini(struct tr_engine *e, struct tr_walk *w);
void tr_walk_io_done(struct tr_engine *e, struct tr_walk *w);

/* deaths.c */
void tr_deaths_send(struct tr_engine *e, struct tr_job *job); /* out of memory, if it can be */
/* The first dead job of a topic, or NULL. TARRY_EFULL: it is on its way, ask again. */
TR_MUST_USE int tr_deaths_first(struct tr_engine *e, struct tr_topic *t, struct tr_job **job);
void tr_deaths_step(struct tr_engine *e);
bool tr_deaths_goes_on(const struct tr_engine *e); /* it wants a turn */
void tr_deaths_fini(struct tr_engine *e);

/* list.c */
enum tr_verdict tr_listing_execute(struct tr_engine *e, struct tr_req *r);
void tr_listing_step(struct tr_engine *e);
bool tr_listing_goes_on(const struct tr_engine *e); /* it wants a turn */
void tr_listing_abandon(struct tr_engine *e, const struct tr_req *r);
void tr_listing_fail(struct tr_engine *e);
void tr_listing_fini(struct tr_engine *e);
void tr_listing_entered(struct tr_engine *e, const struct tr_job *job); /* a state */
void tr_listing_leaves(struct tr_engine *e, const struct tr_job *job);  /* memory */
void tr_listing_purged(struct tr_engine *e, struct tr_topic *t, const struct tr_topic *heir);
void tr_listing_read(struct tr_engine *e, const struct tr_read *read, bool good);

/* purge.c */
enum tr_verdict tr_purge_execute(struct tr_engine *e, struct tr_req *r);
void tr_purge_step(struct tr_engine *e);
uint64_t tr_purge_next(const struct tr_engine *e); /* boot: when it wants a turn */
void tr_purge_fini(struct tr_engine *e);
/* Reads a block of a live run for the forecast. False: no memory. */
bool tr_fetch_scan(struct tr_engine *e, struct tr_group *g, uint32_t block);

/* forecast.c */
enum tr_verdict tr_forecast_execute(struct tr_engine *e, struct tr_req *r);
void tr_forecast_drop(struct tr_engine *e, const struct tr_req *r); /* if it is being answered */
void tr_forecast_step(struct tr_engine *e);
uint64_t tr_forecast_next(const struct tr_engine *e);   /* boot: when it wants a turn */
void tr_forecast_block(struct tr_engine *e, bool good); /* it was read, into forecast.records */

/* bulk.c */
enum tr_verdict tr_bulk_execute(struct tr_engine *e, struct tr_req *r);
void tr_bulk_step(struct tr_engine *e);
uint64_t tr_bulk_next(const struct tr_engine *e); /* boot: when it wants a turn */
void tr_bulk_abandon(struct tr_engine *e, const struct tr_req *r);
void tr_bulk_fail(struct tr_engine *e);
void tr_bulk_fini(struct tr_engine *e);
bool tr_bulk_keeps(const struct tr_engine *e, const struct tr_job *job); /* in memory */

/* backup.c */
enum tr_verdict tr_backup_execute(struct tr_engine *e, struct tr_req *r);
void tr_backup_step(struct tr_engine *e);
void tr_backup_io_done(struct tr_engine *e, struct tr_io *io);
uint64_t tr_backup_next(const struct tr_engine *e); /* boot: when it wants a turn */
void tr_backup_abandon(struct tr_engine *e, const struct tr_req *r);
void tr_backup_fail(struct tr_engine *e);
void tr_backup_fini(struct tr_engine *e);
bool tr_backup_keeps(const struct tr_engine *e);             /* the checkpoint: no other is begun */
void tr_backup_frozen(struct tr_engine *e, uint64_t batch);  /* a checkpoint was begun, */
void tr_backup_adopted(struct tr_engine *e, uint64_t batch); /* and is durable */

/* promote.c */
void tr_promote_step(struct tr_engine *e);
void tr_promote_io_done(struct tr_engine *e, struct tr_io *io);
void tr_promote_give_up(struct tr_engine *e, int why);
void tr_promote_list(const struct tr_engine *e,
                     struct tr_manifest *next); /* the groups that it is to name */
void tr_promote_adopted(struct tr_engine *e);   /* that is durable */
bool tr_promote_busy(const struct tr_engine *e);
bool tr_promote_goes_on(const struct tr_engine *e);
void tr_promote_fini(struct tr_engine *e);
void tr_promote_met(struct tr_engine *e, struct tr_job *job); /* it came back into memory */

/* merge.c */
/* Is the record of this live rid in its group? Else it is in a slot. */
bool tr_merge_in_run(const struct tr_engine *e, uint64_t rid);
void tr_merge_look(struct tr_engine *e, struct tr_group *g); /* counts who is alive */

/* regroup.c: before serving */
TR_MUST_USE int tr_regroup_open(struct tr_engine *e);   /* the groups of the manifest */
TR_MUST_USE int tr_regroup_check(struct tr_engine *e);  /* is anybody missing? */
TR_MUST_USE int tr_regroup_dead(struct tr_engine *e);   /* dead ones come into memory */
TR_MUST_USE int tr_regroup_settle(struct tr_engine *e); /* copies in slots do not count */
TR_MUST_USE int tr_regroup_has(struct tr_engine *e, uint64_t rid, bool *has); /* a run has it */
void tr_regroup_count(struct tr_engine *e);            /* who is only in runs */
TR_MUST_USE int tr_regroup_cells(struct tr_engine *e); /* if the checkpoint has none */
TR_MUST_USE int tr_regroup_clean(struct tr_engine *e); /* files of other groups go */
/* Jobs of a group whose id is not their rid. */
typedef int tr_moved_fn(void *ctx, uint64_t rid, uint64_t id);
TR_MUST_USE int tr_regroup_moved(struct tr_engine *e, const struct tr_group *g, void *ctx,
                                 tr_moved_fn *fn);
TR_MUST_USE int tr_regroup_index(struct tr_engine *e); /* ids and keys again, for another L */

/* retire.c */
void tr_retire_step(struct tr_engine *e);
void tr_retire_io_done(struct tr_engine *e, struct tr_io *io);
void tr_retire_adopted(struct tr_engine *e); /* a new manifest is durable */

/* meta.c */
void tr_meta_step(struct tr_engine *e);
void tr_meta_io_done(struct tr_engine *e, struct tr_io *io);
/* The checkpoint files have room for so many more (R26); if not, they are made to grow. */
bool tr_meta_room(struct tr_engine *e, uint64_t more_jobs);
bool tr_meta_policy_room(struct tr_engine *e, uint64_t more_bytes); /* the same for policies */
TR_MUST_USE int tr_meta_write_now(struct tr_engine *e, bool checkpoint, uint32_t flags);
uint64_t tr_meta_oldest(const struct tr_engine *e); /* batch that both checkpoints contain */
void tr_meta_forget(struct tr_engine *e);           /* what is frozen, or on its way to the file */
void tr_meta_fini(struct tr_engine *e);
bool tr_meta_busy(const struct tr_engine *e);
bool tr_meta_wants_batch(const struct tr_engine *e); /* the open one is to be closed, for the next
                                                        checkpoint */
void tr_meta_freeze(struct tr_engine *e);            /* a slice of the next checkpoint */

/* rest.c */
void tr_rest_begin(struct tr_engine *e); /* if it is idle */
void tr_rest_step(struct tr_engine *e);  /* a slice */
void tr_rest_stat(const struct tr_engine *e, struct tr_engine_stat *s);

/* gauges.c */
void tr_gauges_commits(struct tr_engine *e);   /* a batch is on its way, */
void tr_gauges_committed(struct tr_engine *e); /* and on the disk */

/* space.c */
void tr_space_step(struct tr_engine *e);
void tr_space_io_done(struct tr_engine *e, struct tr_io *io);
void tr_space_relog(struct tr_engine *e, struct tr_read *read, struct tr_job *job, int status);
bool tr_space_push_ok(const struct tr_engine *e);
bool tr_space_hope(const struct tr_engine *e); /* space for pushes is on its way */
bool tr_space_freeable(const struct tr_engine *e, const struct tr_slot *slot);
TR_MUST_USE int tr_space_make_now(struct tr_engine *e, uint32_t number);
bool tr_space_busy(const struct tr_engine *e);

#endif
