/*
 * A machine that reads JSON byte by byte (RFC 8259, UTF-8, no byte order mark).
 *
 *     before a value --> string, number, literal --> after a value
 *          ^  |                                         |    ^
 *          |  +--- [ or { : one level deeper            |    |
 *          +------------------ , ----------------------+    |
 *                              ] or } : one level up --------+
 *
 * The open brackets are bits of one word, so depth is bounded by its width and there is neither a
 * stack nor recursion. A number ends only with the byte behind it, which is then looked at again.
 *
 * Names of members may repeat as far as this is concerned; whoever reads them looks for that.
 */

#include "proto/json_in.h"

#include "base/check.h"

#include <assert.h>

static_assert(TR_JSON_DEPTH_MAX <= 64, "the open brackets are bits of one word");

enum state {
    BEFORE,  /* the outermost value, or a line */
    VALUE,   /* a value must come */
    ELEMENT, /* a value, or the end of this array that is still empty */
    MEMBER,  /* a name, or the end of this object that is still empty */
    NAME,    /* a name must come */
    COLON,
    AFTER,  /* a comma or a closing bracket */
    BEHIND, /* the outermost value has ended */
    STRING,
    ESCAPE,
    HEX,
    LITERAL,
    MINUS, /* numbers: what came last */
    ZERO,
    WHOLE,
    POINT,
    FRACTION,
    EXPONENT,
    SIGN,
    POWER,
    REFUSED,
};

/* Of a step. */
enum outcome {
    TAKEN,
    ENDED,       /* taken, and a value ended with it */
    ENDED_BEFORE /* not taken: a number ended before it */
};

static const char not_json[] = "is not JSON";
static const char not_text[] = "is not JSON: a string is not UTF-8";

void tr_json_in_init(struct tr_json_in *s, enum tr_json_form form)
{
    *s = (struct tr_json_in){.form = form, .state = BEFORE};
}

static enum outcome refuse(struct tr_json_in *s, const char *why)
{
    s->state = REFUSED;
    s->why = why;
    return TAKEN;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool in_object(const struct tr_json_in *s)
{
    return (s->objects >> (s->depth - 1) & 1) != 0;
}

/* How many brackets are open around an item. */
static uint8_t item_depth(const struct tr_json_in *s)
{
    return s->form == TR_JSON_ARRAY;
}

/* ---- values ---- */

static enum outcome open_bracket(struct tr_json_in *s, bool object)
{
    if (s->depth == TR_JSON_DEPTH_MAX) {
        return refuse(s, "is nested deeper than 64 levels");
    }
    s->objects &= ~(UINT64_C(1) << s->depth);
    s->objects |= (uint64_t)object << s->depth;
    s->depth++;
    s->state = object ? MEMBER : ELEMENT;
    return TAKEN;
}

static enum outcome close_bracket(struct tr_json_in *s, uint8_t c)
{
    if (in_object(s) != (c == '}')) {
        return refuse(s, not_json);
    }
    s->depth--;
    return ENDED;
}

static void begin_string(struct tr_json_in *s, bool is_name)
{
    s->state = STRING;
    s->is_name = is_name;
    s->half = false;
    s->utf8 = (struct tr_utf8){0};
}

static enum outcome begin_value(struct tr_json_in *s, uint8_t c)
{
    if (s->depth == item_depth(s)) {
        s->item_from = s->at;
    }
    switch (c) {
    case '{':
        return open_bracket(s, true);
    case '[':
        return open_bracket(s, false);
    case '"':
        begin_string(s, false);
        return TAKEN;
    case 't':
        s->literal = "rue";
        break;
    case 'f':
        s->literal = "alse";
        break;
    case 'n':
        s->literal = "ull";
        break;
    case '-':
        s->state = MINUS;
        return TAKEN;
    default:
        if (!is_digit(c)) {
            return refuse(s, not_json);
        }
        s->state = c == '0' ? ZERO : WHOLE;
        return TAKEN;
    }
    s->state = LITERAL;
    return TAKEN;
}

/* Gives true when that was an item. */
static bool end_value(struct tr_json_in *s)
{
    s->state = s->depth > 0 ? AFTER : BEHIND;
    if (s->depth == item_depth(s)) {
        s->item_to = s->at;
        return true;
    }
    return false;
}

/* ---- between values ---- */

static enum outcome step_space(struct tr_json_in *s, uint8_t c)
{
    if (c == '\n' && s->form == TR_JSON_LINES) {
        if (s->state != BEFORE && s->state != BEHIND) {
            return refuse(s, "is not NDJSON: a line ends inside a value");
        }
        s->state = BEFORE;
    }
    return TAKEN;
}

static enum outcome step_between(struct tr_json_in *s, uint8_t c)
{
    if (is_space(c)) {
        return step_space(s, c);
    }
    switch ((enum state)s->state) {
    case BEFORE:
        if (s->form == TR_JSON_ARRAY && c != '[') {
            return refuse(s, "is not a JSON array");
        }
        return begin_value(s, c);
    case ELEMENT:
        return c == ']' ? close_bracket(s, c) : begin_value(s, c);
    case VALUE:
        return begin_value(s, c);
    case MEMBER:
        if (c == '}') {
            return close_bracket(s, c);
        }
        /* fall through */
    case NAME:
        if (c != '"') {
            return refuse(s, not_json);
        }
        begin_string(s, true);
        return TAKEN;
    case COLON:
        s->state = VALUE;
        return c == ':' ? TAKEN : refuse(s, not_json);
    case AFTER:
        if (c == ',') {
            s->state = in_object(s) ? NAME : VALUE;
            return TAKEN;
        }
        return c == ']' || c == '}' ? close_bracket(s, c) : refuse(s, not_json);
    default:
        return refuse(s, s->form == TR_JSON_LINES ? "is not NDJSON: two values in a line"
                                                  : "is not JSON: something follows its end");
    }
}

/* ---- inside strings ---- */

static enum outcome step_string(struct tr_json_in *s, uint8_t c)
{
    if (s->half && c != '\\') {
        return refuse(s, not_text);
    }
    if (s->utf8.need == 0 && c == '\\') {
        s->state = ESCAPE;
        return TAKEN;
    }
    if (s->utf8.need == 0 && c == '"') {
        s->state = COLON;
        return s->is_name ? TAKEN : ENDED;
    }
    if (c < 0x20) {
        return refuse(s, "is not JSON: a control character stands in a string");
    }
    return tr_utf8_step(&s->utf8, c) ? TAKEN : refuse(s, not_text);
}

static enum outcome step_escape(struct tr_json_in *s, uint8_t c)
{
    if (c == 'u') {
        s->state = HEX;
        s->hex_left = 4;
        s->unit = 0;
        return TAKEN;
    }
    if (s->half) {
        return refuse(s, not_text);
    }
    if (c != '"' && c != '\\' && c != '/' && c != 'b' && c != 'f' && c != 'n' && c != 'r' &&
        c != 't') {
        return refuse(s, not_json);
    }
    s->state = STRING;
    return TAKEN;
}

static enum outcome step_hex(struct tr_json_in *s, uint8_t c)
{
    uint8_t lower = c | 0x20;
    unsigned digit = is_digit(c) ? (unsigned)(c - '0') : (unsigned)(lower - 'a') + 10;
    bool low;

    if (!is_digit(c) && (lower < 'a' || lower > 'f')) {
        return refuse(s, not_json);
    }
    s->unit = (uint16_t)((unsigned)s->unit << 4 | digit);
    if (--s->hex_left > 0) {
        return TAKEN;
    }
    low = s->unit >= 0xdc00 && s->unit <= 0xdfff;
    if (low != s->half) {
        return refuse(s, not_text);
    }
    s->half = s->unit >= 0xd800 && s->unit <= 0xdbff;
    s->state = STRING;
    return TAKEN;
}

static enum outcome step_literal(struct tr_json_in *s, uint8_t c)
{
    if (c != (uint8_t)*s->literal) {
        return refuse(s, not_json);
    }
    s->literal++;
    return *s->literal == '\0' ? ENDED : TAKEN;
}

/* ---- inside numbers ---- */

/* What the byte makes of the number; REFUSED: it is not part of it. */
static enum state number_with(enum state state, uint8_t c)
{
    bool digit = is_digit(c);

    switch (state) {
    case MINUS:
        return digit ? (c == '0' ? ZERO : WHOLE) : REFUSED;
    case WHOLE:
        if (digit) {
            return WHOLE;
        }
        /* fall through */
    case ZERO:
        return c == '.' ? POINT : (c | 0x20) == 'e' ? EXPONENT : REFUSED;
    case POINT:
        return digit ? FRACTION : REFUSED;
    case FRACTION:
        return digit ? FRACTION : (c | 0x20) == 'e' ? EXPONENT : REFUSED;
    case EXPONENT:
        return digit ? POWER : c == '+' || c == '-' ? SIGN : REFUSED;
    default: /* SIGN, POWER */
        return digit ? POWER : REFUSED;
    }
}

static bool number_whole(enum state state)
{
    return state == ZERO || state == WHOLE || state == FRACTION || state == POWER;
}

static enum outcome step_number(struct tr_json_in *s, uint8_t c)
{
    enum state next = number_with((enum state)s->state, c);

    if (next != REFUSED) {
        s->state = (uint8_t)next;
        return TAKEN;
    }
    return number_whole((enum state)s->state) ? ENDED_BEFORE : refuse(s, not_json);
}

/* ---- all ---- */

static enum outcome step(struct tr_json_in *s, uint8_t c)
{
    switch ((enum state)s->state) {
    case STRING:
        return step_string(s, c);
    case ESCAPE:
        return step_escape(s, c);
    case HEX:
        return step_hex(s, c);
    case LITERAL:
        return step_literal(s, c);
    case MINUS:
    case ZERO:
    case WHOLE:
    case POINT:
    case FRACTION:
    case EXPONENT:
    case SIGN:
    case POWER:
        return step_number(s, c);
    default:
        return step_between(s, c);
    }
}

/* How many bytes of a string say nothing new. */
static size_t plain_span(const struct tr_json_in *s, const uint8_t *bytes, size_t len)
{
    size_t n = 0;

    if (s->state != STRING || s->half || s->utf8.need > 0) {
        return 0;
    }
    while (n < len && bytes[n] >= 0x20 && bytes[n] < 0x80 && bytes[n] != '"' && bytes[n] != '\\') {
        n++;
    }
    return n;
}

enum tr_json_event tr_json_in_feed(struct tr_json_in *s, const void *bytes, size_t len,
                                   size_t *taken)
{
    const uint8_t *p = bytes;
    uint64_t start = s->at;
    bool item = false;

    while (!item && s->state != REFUSED && s->at - start < len) {
        size_t i = (size_t)(s->at - start);
        size_t span = plain_span(s, p + i, len - i);
        enum outcome did;

        if (span > 0) {
            s->at += span;
            continue;
        }
        did = step(s, p[i]);
        s->at += did != ENDED_BEFORE && s->state != REFUSED;
        item = did != TAKEN && end_value(s);
    }
    *taken = (size_t)(s->at - start);
    return s->state == REFUSED ? TR_JSON_BAD : item ? TR_JSON_ITEM : TR_JSON_MORE;
}

enum tr_json_event tr_json_in_end(struct tr_json_in *s)
{
    if (s->depth == 0 && number_whole((enum state)s->state)) {
        (void)end_value(s);
        return TR_JSON_ITEM;
    }
    if (s->state == BEHIND || (s->state == BEFORE && s->form == TR_JSON_LINES)) {
        return TR_JSON_END;
    }
    if (s->state != REFUSED) {
        (void)refuse(s, "is not JSON: it ends too early");
    }
    return TR_JSON_BAD;
}
