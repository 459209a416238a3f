#ifndef TR_BASE_MUTANTS_H
#define TR_BASE_MUTANTS_H

/* The deliberate bugs, by rule; see base/mutant.h. R14 has a test of its own, in test_recover.c. */

/* clang-format off */
#define TR_MUTANT_LIST(X) \
    X(ACK_BEFORE_SYNC, "R1", "every other batch is answered without its sync", "log.c:write_rest", "generic", 200) \
    X(BLOCK_NOT_TOLD, "R47", "a check does not tell of a damaged block", "survey.c:survey_block", "runs", 2000) \
    X(SALVAGE_NO_KILLS, "R47", "a salvage passes over deaths in the log", "salvage.c:collect_kills", "rot", 2000) \
    X(SALVAGE_KEEPS_POLICY, "R47", "a topic that was purged keeps its policy in a salvage", "salvage.c:apply_purge", "manifest", 2000) \
    X(SHARED_SECTOR, "R2", "a batch begins in the block where the one before ends", "log.c:written", "crash", 2000) \
    X(SYNC_CLAIMS_LATER, "R3", "a sync counts for what was written while it ran", "log.c:sync_done", "weak", 2000) \
    X(NO_SEGMENT_CHECK, "R4", "any good frame is taken for the next one", "scan.c:tr_scan_frame", "generic", 2000) \
    X(NO_SEAL, "R5", "no SEAL is written", "log.c:tr_log_seal", "rot", 5000) \
    X(HEADER_ONLY, "R6", "a slot is known by its header only", "scan.c:add_frame", "rot", 5000) \
    X(HEADER_ALARM, "R6", "a header that a power cut left out is called damage", "replay.c:had_header", "crash", 2000) \
    X(UNSYNCED_RECOVERY, "R7", "recovery reads without syncing first", "recover.c:sync_file", "crash", 2000) \
    X(CACHED_RECOVERY, "R7", "recovery trusts the page cache", "recover.c:read_file", "fault", 5000) \
    X(RETRY_SYNC, "R8", "a failed sync of the log is tried again", "log.c:tr_log_io_done", "fault", 2000) \
    X(RETRY_MANIFEST, "R8", "a failed sync of the manifest is tried again", "meta.c:manifest_part_done", "fault", 5000) \
    X(KEEP_BAD_CHECKPOINT, "R9", "a checkpoint whose sync failed is used", "meta.c:tr_meta_io_done", "crash", 5000) \
    X(NO_DIRSYNC, "R10", "a new slot is used before its name is durable", "space.c:tr_space_io_done", "relog", 5000) \
    X(FREED_EARLY, "R10", "a slot is free before the manifest is durable", "meta.c:list_slots", "relog", 5000) \
    X(FREE_UNCHECKPOINTED, "R11", "a slot is freed that no checkpoint contains", "space.c:tr_space_freeable", "relog", 5000) \
    X(MANIFEST_IN_PLACE, "R12", "every manifest goes to the same file", "meta.c:man_file", "generic", 5000) \
    X(OLD_MANIFEST, "R12", "an older manifest is used though frames know a newer one", "recover.c:check_generation", "manifest", 5000) \
    X(SKIP_BAD_FRAME, "R13", "a frame with a bad payload is passed over", "replay.c:walk_segment", "rot", 5000) \
    X(MEET_SETS_BIT, "R15", "an old record brings its job back", "state.c:tr_state_meet", "generic", 500) \
    X(FREE_AFTER_ONE, "R16", "a slot is freed when one checkpoint contains it", "meta.c:tr_meta_oldest", "rot", 10000) \
    X(RELOG_OLD_FIELDS, "R17", "RELOG writes a due time that was changed since", "space.c:append", "generic", 2000) \
    X(RIDS_AGAIN, "R18", "rids that were lost with the tail are used again", "recover.c:replay", "weak", 2000) \
    X(IGNORE_RID_LIMIT, "R18", "rids are used beyond the durable limit", "change.c:push", "weak", 5000) \
    X(MANIFEST_FIRST, "R19", "the manifest does not wait for the log", "meta.c:tr_meta_step", "weak", 2000) \
    X(ALWAYS_DAMAGE, "R20", "whatever is found after the end is called damage", "replay.c:end_log", "weak", 500) \
    X(NEVER_DAMAGE, "R20", "a durable batch that is bad is called the end", "replay.c:end_log", "rot", 2000) \
    X(NOT_ZEROED, "R20", "what comes after the end stays there", "replay.c:zero", "weak", 20000) \
    X(HOLD_TIME, "R21", "T stands still when the clock is set back", "clock.c:tr_clock_update", "clock", 500) \
    X(UNGATED_NEGATIVE, "R22", "a negative answer does not wait for the log", "engine.c:tr_engine_finish", "generic", 2000) \
    X(UNGATED_HANDOUT, "R22", "a hand-out does not wait for its push", "handout.c:handed", "generic", 2000) \
    X(MOVE_KEEPS_OLD, "R23", "MOVE does not kill the old rid", "state.c:apply_move", "generic", 500) \
    X(EMPTIED_UNSYNCED, "R24", "a slot is freed on the word of kills that are not durable", "space.c:tr_space_freeable", "relog", 5000) \
    X(APPLIED_TWICE, "R25", "the checkpoint's last batch is applied again", "replay.c:apply", "generic", 500) \
    X(NOT_FROZEN, "R25", "what changes while a checkpoint is made is not copied first", "checkpoint.c:tr_freeze_job", "generic", 2000) \
    X(COUNT_NOT_FROZEN, "R25", "a topic is counted as it is when its row is copied", "state.c:count", "generic", 2000) \
    X(CELL_NOT_FROZEN, "R25", "a cell that changes while a checkpoint is made is not copied first", "checkpoint.c:tr_freeze_cell", "generic", 2000) \
    X(CELLS_TWICE, "R25", "a job that is met at its RELOG is counted again", "state.c:apply_relog", "relog", 2000) \
    X(KILL_ANY_CELL, "R35", "a kill is counted in an hour though its job was in a day", "state.c:tr_state_kill", "generic", 2000) \
    X(ALTER_OLD_IGNORED, "R35", "the replay does not look at what an ALTER says was before", "state.c:recount_altered", "relog", 5000) \
    X(WATCH_IGNORED, "R34", "a forecast does not hear of what changes behind it", "cells.c:tell", "far", 10000) \
    X(HINT_BELIEVED, "R34", "a cell is taken to be where it was last found without a look", "cells.c:look_there", "generic", 200) \
    X(FINE_STAYS, "R34", "the table of seconds stays when the clock has jumped far ahead", "forecast.c:fine_ready", "clock", 10000) \
    X(MINUTE_WITHOUT_C, "R34", "a kill is subtracted from a second in which it was not counted", "fine.c:tr_fine_sub", "far", 5000) \
    X(LOAD_NOT_COUNTED, "R34", "a job that comes into memory during the scan is not counted", "tally.c:tr_tally_entered", "far", 20000) \
    X(FORECAST_OF_READY, "R34", "a forecast counts ready and reserved jobs of the second that has begun", "tally.c:tr_tally_entered", "far", 5000) \
    X(LATE_SINCE_START, "R34", "what was ready before a stop is late by how long that took", "change.c:ready_since", "generic", 2000) \
    X(LATE_ANEW, "R34", "a job is late anew whenever it is ready again", "change.c:tr_change_schedule", "generic", 2000) \
    X(METER_FORGETS, "R49", "what a topic had counted is lost when its meter goes to another", "meter.c:give", "meters", 2000) \
    X(NO_RESERVE, "R26", "pushes may use the last slot", "space.c:tr_space_push_ok", "full", 2000) \
    X(LATE_ALLOCATION, "R26", "checkpoints get their blocks when they are written", "recover.c:make_room", "full", 5000) \
    X(LEASE_IS_ATTEMPT, "R27", "the attempt count is the lease number", "handout.c:new_lease", "generic", 2000) \
    X(ANY_LEASE, "R27", "any lease number is accepted", "handout.c:tr_handout_held_by", "generic", 500) \
    X(GROUP_NO_DIRSYNC, "R10", "the names of run files are not synced before the manifest names them", "promote.c:step_done", "far", 5000) \
    X(BLOCK_FORGOTTEN, "R28", "a job that leaves memory again stays behind the sweep", "fetch.c:tr_fetch_left", "far", 20000) \
    X(RETIRED_UNSYNCED, "R24", "a group goes on the word of kills that are not durable", "retire.c:tr_retire_step", "merge", 5000) \
    X(PULL_MISSES, "R28", "what is pushed behind the search for the first of a topic goes away", "load.c:is_pulled", "far", 5000) \
    X(DEAD_EDGE_LEFT, "R28", "a dead job leaves memory, and the search does not begin before it", "deaths.c:tr_deaths_send", "far", 5000) \
    X(SWEEP_ONCE, "R28", "a sweep does not come back for what it could not load", "load.c:sweep_page", "far", 2000) \
    X(PAGE_UNCHECKED, "R30", "a page of a sidecar is used without a look at its crc", "fetch.c:view_page", "runs", 5000) \
    X(FAR_CHANGE_LOST, "R28", "a change of a far job is passed over in the replay", "state.c:apply_change", "far", 2000) \
    X(BLOCK_LOST, "R29", "a damaged block of a run costs all of its records", "mend.c:tr_mend_add", "runs", 2000) \
    X(FOOTER_LOST, "R13", "a damaged footer of a run refuses the store", "regroup.c:open_run", "runs", 2000) \
    X(SIDE_LOST, "R13", "a damaged sidecar refuses the store", "regroup.c:open_side", "runs", 2000) \
    X(SPOILED_STAYS, "R30", "a sidecar with a damaged page is not made again", "merge.c:choose_spoiled", "runs", 2000) \
    X(SCRUB_BLIND, "R29", "the scrubber does not look at what it reads", "scrub.c:tr_scrub_io_done", "runs", 2000) \
    X(LIST_NO_MEMORY, "I29", "a list leaves out jobs in memory", "list.c:find_by_state", "purge", 500) \
    X(LIST_NO_RUNS, "I29", "a list leaves out jobs in runs", "list.c:find_in_runs", "purge", 2000) \
    X(LIST_NOT_TOLD, "I29", "a list does not hear of what changes while it is made", "list.c:tr_listing_entered", "purge", 5000) \
    X(KEY_NOT_COMPARED, "R33", "a hash that fits is taken for the key", "lookup.c:is_meant", "keys", 500) \
    X(STALE_KEY_BELIEVED, "R33", "a key counts though its rid is dead", "lookup.c:tr_lookup_key", "keys", 500) \
    X(KEY_NOT_MOVED, "R33", "a job that was moved is still looked for under its old rid", "state.c:move_key", "keys", 500) \
    X(KEY_NOT_RELOGGED, "R33", "RELOG writes no key", "space.c:append", "keys", 2000) \
    X(KEY_NOT_MET, "R33", "keys that a start meets in the log do not count", "state.c:add_job", "keys", 500) \
    X(KEYS_NOT_TIDIED, "R33", "entries of jobs that are gone stay", "lookup.c:tr_lookup_tidy", "keys", 500) \
    X(KEY_NOT_PROMOTED, "R33", "the sidecar of a promotion has no keys", "promote_make.c:tr_promote_note", "keys", 2000) \
    X(ABSORBED_LATE, "R25", "a job that changed after a promotion took it is altered no more", "state.c:tr_state_absorb", "merge", 2000) \
    X(SLOT_BEFORE_RUN, "R25", "a start believes a record in a slot though a run has a newer one", "replay.c:has", "merge", 5000) \
    X(MERGE_FREED_EARLY, "R10", "groups that were merged go before the manifest is durable", "promote.c:files_done", "merge", 2000) \
    X(MERGE_UNSYNCED, "R24", "a merge leaves out jobs whose deaths are not durable", "merge.c:tr_merge_rids", "merge", 5000) \
    X(RUN_NOT_COUNTED, "R24", "a run does not count what a promotion brings to it", "promote.c:switch_far", "merge", 200) \
    X(MERGE_DROPS_LOCATED, "R23", "a merge leaves out jobs that somebody asks for", "merge.c:in_run", "merge", 2000) \
    X(REPLACED_UNDER_READ, "R24", "a group that was merged goes while it is read", "retire.c:find_replaced", "merge", 5000) \
    X(OLD_RUN_SWEPT, "R28", "a sweep or search goes on as if no group had been replaced", "fetch.c:tr_fetch_replaced", "merge", 5000) \
    X(BULK_MEETS_OWN, "I5", "a bulk changes what it has changed", "bulk.c:is_old", "purge", 2000) \
    X(BULK_NO_RUNS, "I29", "a bulk leaves out jobs in runs", "bulk.c:in_run", "purge", 5000) \
    X(PURGE_FORGOTTEN, "I23", "a checkpoint's word that a topic was purged is passed over", "checkpoint.c:load_topic", "purge", 10000) \
    X(PURGE_NOT_FROZEN, "R25", "a checkpoint says that a topic is purged that was purged after it", "state.c:apply_purge", "purge", 5000) \
    X(PURGE_FOUND, "I23", "a purged job is found by its id", "state.c:tr_state_job", "purge", 2000) \
    X(PURGE_FAR_FOUND, "I23", "the same for a far one", "state.c:tr_state_far_rid", "purge", 2000) \
    X(PURGE_HANDED, "I23", "a job that is purged while its body is read is handed out", "handout.c:tr_handout_body", "purge", 5000) \
    X(REFILL_SKIPS, "R32", "a refill forgets some of the jobs that it has found", "refill.c:take_span", "park", 2000) \
    X(NO_REFILL, "R32", "parked jobs never come back", "refill.c:tr_refill_step", "park", 500) \
    X(NEVER_PARKED, "R32", "a topic at its quota keeps all that is pushed", "park.c:tr_park_placed", "park", 2000) \
    X(BACKUP_UNHELD, "I28", "slots are freed while they are copied", "backup.c:hold_slots", "backup", 5000) \
    X(BACKUP_UNREAD, "I28", "groups go while a copy is about to have them", "backup.c:hold_groups", "backup", 5000) \
    X(BACKUP_TO_NOW, "I28", "slots are copied to their end, not to the batch", "backup.c:end_of", "backup", 2000) \
    X(BACKUP_UNSYNCED, "I28", "files of a copy are not synced", "backup.c:read_some", "backup", 5000) \
    X(BACKUP_NAMES_UNSYNCED, "I28", "the mark goes before the names are durable", "backup.c:next_file", "backup", 10000) \
    X(BACKUP_MARK_UNSYNCED, "I28", "files are made before the mark is durable", "backup.c:folder_done", "backup", 5000) \
    X(NO_WARNING, "R31", "a reserve that waits is not warned of the end of a lease", "handout.c:arm_wait", "wait", 500) \
    X(POLICY_NOT_FROZEN, "R25", "a checkpoint has a policy that was set after it", "state.c:set_policy", "policy", 5000) \
    X(POLICY_LOST_IN_PURGE, "I23", "the policy of a topic that was purged is only in memory", "policies.c:tr_policies_inherit", "policy", 2000) \
    X(POLICY_KEEPS_TOPIC, "I12", "a policy that is taken back is kept as one of which nothing is given", "state.c:apply_policy", "policy", 500) \
    X(STOPPED_FOR_EVER, "I27", "a pause of a topic's policy that has an end does not end", "policies.c:tr_policies_step", "policy", 500) \
    X(PAUSED_IN_IGNORED, "I13", "a topic that takes no jobs takes them", "policies.c:tr_policies_admit", "policy", 200) \
    X(JITTER_EARLY, "I2", "jitter makes a job due earlier", "policies.c:tr_policies_jitter", "policy", 500) \
    X(BYTES_GUESSED, "R48", "how long the body of a far job is that dies is guessed", "state.c:tr_state_weigh", "policy", 2000) \
    X(BYTES_GUESSED_LATER, "R48", "a replay guesses it, whatever the log says", "state.c:tr_state_weigh", "policy", 5000) \
    X(TAG_NOT_IN_ROW, "R25", "a checkpoint does not say that the tag or ttl of a job has changed", "extra.c:tr_extra_describe_changes", "policy", 2000) \
    X(TAG_NOT_IN_RUN, "R25", "a promotion writes the old tag and ttl of a job that has changed", "promote_make.c:read_chosen", "far", 2000) \
    X(ENDLESS_RETRIES, "R39", "no attempt is the last one", "retry.c:tr_retry_was_last", "retry", 500) \
    X(NOTHING_FIXED, "R39", "what the policy gives is not fixed by the push", "change.c:fixed", "policy", 500) \
    X(NO_BACKOFF, "R39", "what is not finished is ready again at once", "retry.c:tr_retry_delay", "retry", 500) \
    X(KICK_KEEPS_COUNT, "R39", "a kick does not count attempts anew", "retry.c:tr_retry_forgets", "retry", 500) \
    X(NO_RATE, "R40", "jobs are handed out as fast as anybody asks", "limit.c:bucket_of", "limit", 500) \
    X(NO_IN_FLIGHT, "R40", "any number may be reserved at once", "limit.c:is_crowded", "limit", 500) \
    X(NO_REFUND, "R40", "a hand-out that reached nobody keeps its token", "limit.c:tr_limit_refund", "limit", 5000) \
    X(NEVER_EXPIRES, "R41", "a job whose time is over is handed out", "expiry.c:tr_expiry_settle", "expiry", 500) \
    X(NO_DEAD_MAX, "R42", "any number of dead jobs is kept", "drop.c:too_many", "expiry", 500) \
    X(BURIED_TWICE, "I6", "a dead job is buried by force", "change.c:bury", "expiry", 500) \
    X(NO_DEAD_KEEP, "R42", "dead jobs are kept for ever", "drop.c:end_of", "expiry", 2000) \
    X(ANY_TAG, "R43", "who asks for a tag gets any job", "handout.c:first_of", "tags", 500) \
    X(LIST_ANY_TAG, "I29", "a list shows jobs with any tag", "list.c:tag_fits", "purge", 500) \
    X(BULK_ANY_TAG, "I29", "a bulk changes jobs with any tag", "bulk.c:tag_fits", "purge", 500) \
    X(LIST_ONE_TOPIC, "I29", "a list of all topics leaves out far jobs, and what changes meanwhile", "list.c:about", "purge", 500) \
    X(NO_PAYLOAD_CRC, "R29", "the payload's crc is not checked", "scan.c:payload_ok", "rot", 5000) \
    X(ADVANCE_JUMPS, "R36", "the test clock goes to its end at once", "advance.c:next_event", "tclock", 200) \
    X(ADVANCE_UNLOADED, "R36", "it goes on before far jobs are loaded", "advance.c:is_settled", "tclock", 2000) \
    X(ADVANCE_SKIPS_LEASES, "R36", "it passes ends of leases", "advance.c:next_event", "tclock", 500) \
    X(SPAN_IS_REAL, "R36", "leases and pauses run on boot time", "clock.c:tr_clock_span", "tclock", 500) \
    X(CLOCK_UNLOGGED, "R37", "it moves before that is durable", "advance.c:is_free", "tclock", 2000) \
    X(CLOCK_NOT_KEPT, "R37", "the checkpoint does not tell where it stands", "checkpoint.c:finish", "tclock", 2000) \
    X(NEXT_DUE_STAYS, "R38", "the first far job of a topic goes, and is still told", "topic.c:tr_topic_lose_far", "far", 3000) \
    X(ACTOR_FORGOTTEN, "R45", "history does not tell who did it", "past.c:note", "lease", 500) \
    X(HISTORY_NOT_READ, "R45", "history is not read after a crash", "past_file.c:tr_past_load", "lease", 2000) \
    X(GONE_FORGOTTEN, "R45", "history does not tell that a job is gone", "past.c:tr_past_gone", "lease", 500) \
    X(HISTORY_END_MISSED, "R45", "history misses what happens while it is looked for", "history.c:tr_histories_next", "lease", 5000) \
    X(SCHED_STEP_UNLOGGED, "R51", "an occurrence is made, and the log does not say that its tick is done", "occur.c:log_step", "cron", 500) \
    X(SCHED_MISSED_LOST, "R51", "ticks that were missed make no job", "schedule.c:tr_schedule_tick", "cron", 1000) \
    X(SCHED_NOT_FROZEN, "R25", "a checkpoint has a schedule as it was after it", "sched.c:before_change", "cron", 5000) \
    X(SCHED_AFTER_START, "R52", "a fixed delay counts from when the occurrence was due", "schedule.c:tr_schedule_ended", "cron", 500) \
    X(SCHED_OVERLAPS, "R52", "a tick makes a job though the last one lives", "schedule.c:tr_schedule_tick", "cron", 500) \
    X(SCHED_QUEUE_LOST, "R52", "a tick that should wait is forgotten", "schedule.c:tr_schedule_tick", "cron", 1000) \
    X(SCHED_END_COUNTS, "R51", "a schedule fires at its end", "schedule.c:end_of", "cron", 1000) \
    X(SCHED_LIMIT_LATE, "R51", "a schedule fires once more than its limit", "schedule.c:tr_schedule_next", "cron", 500) \
    X(NO_RECORD_CRC, "R29", "a record's crc is not checked when it is read", "read.c:good", "rot", 5000)
/* clang-format on */

#endif
