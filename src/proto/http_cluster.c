/*
 * GET /v1/cluster: nodes, slots and the servers behind, as this node sees them. Names are for
 * programs, too: one that is there stays.
 */

#include "base/err.h"
#include "base/siphash.h"
#include "base/text.h"
#include "port/picture.h"
#include "proto/http_inner.h"

#include <string.h>

static void text(struct tr_json *j, const char *name, const char *value)
{
    tr_json_name(j, name);
    if (value != NULL && value[0] != '\0') {
        tr_json_text(j, value);
    } else {
        tr_json_null(j);
    }
}

static void truth(struct tr_json *j, const char *name, bool yes)
{
    tr_json_name(j, name);
    tr_json_bool(j, yes);
}

/* A node's name; null: there is none. */
static void node(struct tr_json *j, const char *name, uint64_t number)
{
    char hex[17];

    tr_text(hex, sizeof hex, "%016llx", (unsigned long long)number);
    text(j, name, number != 0 ? hex : NULL);
}

static void tell_nodes(struct tr_json *j, const struct tr_picture *p)
{
    tr_json_name(j, "nodes");
    tr_json_open(j, '[');
    for (unsigned i = 0; i < p->node_count; i++) {
        const struct tr_picture_node *n = &p->nodes[i];

        tr_json_open(j, '{');
        node(j, "node", n->name);
        text(j, "address", n->address);
        text(j, "version", n->version);
        truth(j, "alive", n->until_us > p->now_us);
        tr_json_member(j, "until_ms", n->until_us / 1000);
        truth(j, "self", n->name == p->node);
        tr_json_member(j, "slots", n->slots);
        tr_json_member(j, "owned", n->owned);
        tr_json_close(j, '}');
    }
    tr_json_close(j, ']');
}

static void tell_servers(struct tr_json *j, const struct tr_picture *p)
{
    tr_json_name(j, "servers");
    tr_json_open(j, '[');
    for (unsigned i = 0; i < p->server_count; i++) {
        const struct tr_picture_server *s = &p->servers[i];

        tr_json_open(j, '{');
        text(j, "address", s->address);
        text(j, "role", s->role);
        text(j, "of", s->of);
        truth(j, "failing", s->failing);
        text(j, "connection", s->state);
        text(j, "run", s->run);
        tr_json_member(j, "slots", s->slots);
        tr_json_name(j, "clock_offset_us");
        if (s->measured) {
            tr_json_signed(j, s->offset_us);
            tr_json_member(j, "round_trip_us", s->trip_us);
        } else {
            tr_json_null(j);
        }
        tr_json_close(j, '}');
    }
    tr_json_close(j, ']');
}

static void tell_slot(struct tr_json *j, const struct tr_picture *p, unsigned number)
{
    const struct tr_picture_slot *s = &p->slots[number];

    tr_json_open(j, '{');
    tr_json_member(j, "slot", number);
    node(j, "keeper", s->keeper);
    truth(j, "known", s->known);
    if (s->known) {
        node(j, "owner", s->owner);
        tr_json_member(j, "epoch", s->epoch);
        tr_json_member(j, "topics", s->topics);
        if (s->due_us != 0) {
            text(j, "topic", s->topic);
            tr_json_member(j, "due_ms", s->due_us / 1000);
            tr_json_member(j, "late_ms", s->late_us / 1000);
        }
    }
    text(j, "server", s->server >= 0 ? p->servers[s->server].address : NULL);
    tr_json_close(j, '}');
}

/* What housekeeping has not come to yet. */
static void tell_late(struct tr_json *j, const struct tr_picture *p)
{
    uint64_t most_us = 0;
    unsigned late = 0;
    unsigned unknown = 0;

    for (unsigned i = 0; i < p->slot_count; i++) {
        const struct tr_picture_slot *s = &p->slots[i];

        late += s->late_us > 0;
        unknown += !s->known;
        most_us = s->late_us > most_us ? s->late_us : most_us;
    }
    tr_json_name(j, "late");
    tr_json_open(j, '{');
    tr_json_member(j, "slots", late);
    tr_json_member(j, "most_ms", most_us / 1000);
    tr_json_member(j, "unknown", unknown);
    tr_json_close(j, '}');
}

static void tell_coordinator(struct tr_json *j, const struct tr_picture_coordinator *c)
{
    tr_json_name(j, "coordinator");
    tr_json_open(j, '{');
    text(j, "kind", c->kind);
    tr_json_member(j, "session_ms", c->session_us / 1000);
    tr_json_name(j, "heard_ms_ago");
    if (c->heard_us != UINT64_MAX) {
        tr_json_number(j, c->heard_us / 1000);
    } else {
        tr_json_null(j);
    }
    truth(j, "keeps_house", c->holds);
    text(j, "message", c->why);
    tr_json_close(j, '}');
}

/* The uuid seals leases (tr_lease_print), so the store goes by another name here: the same at all
 * of its nodes, and nobody can tell from it what the uuid is. */
static void tell_store(struct tr_hs *s, struct tr_json *j)
{
    static const char purpose[] = "name";
    struct tr_siphash hash = tr_siphash(s->port->lease_key, purpose, sizeof purpose - 1);
    char hex[33];

    tr_text(hex, sizeof hex, "%016llx%016llx", (unsigned long long)hash.high,
            (unsigned long long)hash.low);
    text(j, "store", hex);
}

static void pictured(struct tr_hs *s)
{
    const struct tr_picture *p = s->req.out.picture;
    struct tr_hs_reply r;

    if (s->req.out.status != TARRY_OK || p == NULL) {
        tr_hs_fail(s);
        return;
    }
    tr_hs_open(s, &r, 200);
    node(&r.json, "node", p->node);
    tr_json_member(&r.json, "now_ms", p->now_us / 1000);
    tell_store(s, &r.json);
    text(&r.json, "prefix", p->prefix);
    s->port->tell_cluster(s->port->ctx, &r.json);
    tell_coordinator(&r.json, &p->coordinator);
    truth(&r.json, "nodes_known", p->nodes_known);
    tell_nodes(&r.json, p);
    tell_servers(&r.json, p);
    tell_late(&r.json, p);
    tr_json_name(&r.json, "slots");
    tr_json_open(&r.json, '[');
    for (unsigned i = 0; i < p->slot_count; i++) {
        tell_slot(&r.json, p, i);
    }
    tr_json_close(&r.json, ']');
    tr_hs_close(s, &r);
}

void tr_hs_cluster(struct tr_hs *s)
{
    if (s->port->tell_cluster == NULL) {
        tr_hs_refuse(s, &(struct tr_http_error){
                            .status = 501,
                            .code = "unsupported",
                            .message = "this server is one node with its own store: only --engine "
                                       "redis has a cluster"});
        return;
    }
    tr_hs_ask(s, TR_OP_PICTURE, pictured);
}
