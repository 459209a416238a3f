/*
 * A line that is there stays as it is: whoever starts a server waits for "listening: http on" and
 * "ready in".
 */

#include "server/greet.h"

#include "rules/moment.h"
#include "server/certificate.h"

#include <inttypes.h>
#include <stdio.h>

static const char *jobs_word(uint64_t count)
{
    return count == 1 ? "job" : "jobs";
}

void tr_greet(const struct tr_config *c, const char *path, bool temporary)
{
    if (c->read_only) {
        printf("tarry %s: data in %s, read-only: nothing is written or handed out\n", TARRY_VERSION,
               path);
        return;
    }
    printf("tarry %s: data in %s, sync %s\n", TARRY_VERSION, path, c->sync_text);
    if (temporary) {
        puts("the store is temporary: its jobs are gone when the server stops (-b DIR keeps them)");
    } else if (c->sync != TR_SYNC_ALWAYS) {
        printf("sync %s: success is answered before the disk has it; kill -9 can take back the "
               "last moments, a power cut ",
               c->sync_text);
        puts(c->sync == TR_SYNC_NEVER ? "all that the kernel had not written yet"
                                      : "what came since the last sync");
    }
}

void tr_greet_redis(const struct tr_config *c)
{
    printf("tarry %s: jobs in Redis at %s, keys %s*, %" PRIu32 " slots\n", TARRY_VERSION,
           c->redis_servers, c->redis_prefix, c->cluster_slots);
}

void tr_greet_ready(const struct tr_config *c, const struct tr_conns *cs,
                    const struct tr_engine_view *engine, uint64_t took_us)
{
    char text[TR_MOMENT_TEXT];

    if (c->test_clock) {
        tr_moment_print(text, (int64_t)engine->clock_us);
        printf("test clock: it is %s until somebody advances it\n", text);
    }
    for (unsigned i = 0; i < TR_PORTS; i++) {
        const struct tr_door *door = &cs->doors[i];

        if (door->listener != NULL) {
            printf("listening: %s on %s\n", door->proto->name, tr_listener_address(door->listener));
        }
    }
    tr_certificate_tell(cs, c);
    if (engine->jobs != UINT64_MAX) {
        printf("%" PRIu64 " %s, ", engine->jobs, jobs_word(engine->jobs));
    }
    printf("ready in %" PRIu64 " ms\n", (took_us + 500) / 1000);
}

void tr_greet_bye(const char *path, uint64_t jobs)
{
    printf("stopped: %" PRIu64 " %s in %s\n", jobs, jobs_word(jobs), path);
}
