/*
 * A ring of the last SIM_TRACE_LEN operations and a running hash.
 *
 * The hash takes eight bytes per multiplication, in four chains at once: it must keep up with
 * every byte ever written.
 */
#include "sim_trace.h"

#include "base/err.h"

#include <string.h>

void sim_trace_init(struct sim_trace *t, uint64_t seed)
{
    t->hash = seed;
    t->count = 0;
}

void sim_trace_mix(struct sim_trace *t, uint64_t v)
{
    uint64_t z = (t->hash ^ v) * 0x9e3779b97f4a7c15u;

    t->hash = z ^ (z >> 29);
}

void sim_trace_mix_bytes(struct sim_trace *t, const void *p, size_t len)
{
    const uint8_t *at = p;
    uint64_t lane[4] = {1, 2, 3, 4};
    uint64_t v;

    if (len >= sizeof lane) {
        for (; len >= sizeof lane; at += sizeof lane, len -= sizeof lane) {
            uint64_t four[4];

            memcpy(four, at, sizeof four);
            for (unsigned i = 0; i < 4; i++) {
                lane[i] = ((lane[i] << 23 | lane[i] >> 41) ^ four[i]) * 0x9e3779b97f4a7c15u;
            }
        }
        for (unsigned i = 0; i < 4; i++) {
            sim_trace_mix(t, lane[i]);
        }
    }
    for (; len >= sizeof v; at += sizeof v, len -= sizeof v) {
        memcpy(&v, at, sizeof v);
        sim_trace_mix(t, v);
    }
    v = 0;
    if (len != 0) {
        memcpy(&v, at, len);
    }
    sim_trace_mix(t, v | (uint64_t)len << 56);
}

static void mix_name(struct sim_trace *t, const char *name)
{
    sim_trace_mix_bytes(t, name, strlen(name));
}

void sim_trace_remark(struct sim_trace *t, const char *what, const char *name, uint64_t off)
{
    struct sim_trace_entry *e = &t->ring[t->count++ % SIM_TRACE_LEN];

    memset(e, 0, sizeof *e);
    e->note = what;
    e->off = off;
    memcpy(e->name, name, strlen(name));
    mix_name(t, what);
    mix_name(t, name);
    sim_trace_mix(t, off);
}

void sim_trace_add(struct sim_trace *t, const struct sim_trace_entry *e)
{
    t->ring[t->count++ % SIM_TRACE_LEN] = *e;
    mix_name(t, e->name);
    sim_trace_mix(t, (uint64_t)e->op << 32 | (uint64_t)e->lane);
    sim_trace_mix(t, e->off);
    sim_trace_mix(t, e->len);
    sim_trace_mix(t, e->got);
    sim_trace_mix(t, (uint64_t)(int64_t)e->status);
}

void sim_trace_print(const struct sim_trace *t, FILE *out)
{
    static const char *const ops[] = {"open",    "close",  "read", "read-direct", "write",
                                      "sync",    "alloc",  "zero", "unlink",      "list",
                                      "dirsync", "folder", "link", "call",        "space"};
    static const char *const lanes[] = {"log", "read", "back", "run"};

    for (uint64_t i = t->count > SIM_TRACE_LEN ? t->count - SIM_TRACE_LEN : 0; i < t->count; i++) {
        const struct sim_trace_entry *e = &t->ring[i % SIM_TRACE_LEN];

        if (e->op_no == 0) {
            fprintf(out, "         -- %s %s %llu\n", e->note, e->name, (unsigned long long)e->off);
            continue;
        }
        fprintf(out, "%8llu %-4s %-11s %-20s %9llu +%-7llu", (unsigned long long)e->op_no,
                lanes[e->lane], ops[e->op], e->name, (unsigned long long)e->off,
                (unsigned long long)e->len);
        fprintf(out, " got %-7llu %s%s%s\n", (unsigned long long)e->got,
                e->status == 0 ? "ok" : tarry_errname(e->status), e->note != NULL ? "  " : "",
                e->note != NULL ? e->note : "");
    }
}
