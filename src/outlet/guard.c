/*
 * The guard is a list of what is not the public Internet (the special-purpose registries of IANA),
 * in the order of its rows; what is in none of them is allowed.
 *
 * IPv6 addresses that carry one of IPv4 (mapped, compatible, NAT64, 6to4) are judged by that: else
 * ::ffff:127.0.0.1 would be a way around. Teredo and the rest of 2001::/23 are refused as a whole.
 */

#include "outlet/guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct block {
    uint8_t bytes[16];
    unsigned bits;
};

static const struct block ip4_blocks[] = {
    {{0}, 8},             /* this network */
    {{10}, 8},            /* private */
    {{100, 64}, 10},      /* shared, behind carriers */
    {{127}, 8},           /* loopback */
    {{169, 254}, 16},     /* link-local; where clouds tell their secrets */
    {{172, 16}, 12},      /* private */
    {{192, 0, 0}, 24},    /* protocols */
    {{192, 0, 2}, 24},    /* documents */
    {{192, 88, 99}, 24},  /* 6to4 relays of old */
    {{192, 168}, 16},     /* private */
    {{198, 18}, 15},      /* benchmarks */
    {{198, 51, 100}, 24}, /* documents */
    {{203, 0, 113}, 24},  /* documents */
    {{224}, 4},           /* multicast */
    {{240}, 4},           /* reserved, and broadcast */
};

static const struct block ip6_blocks[] = {
    {{0}, 8},                       /* unspecified, loopback, and reserved */
    {{0x01, 0x00}, 64},             /* discard */
    {{0x20, 0x01, 0x00}, 23},       /* protocols: Teredo, benchmarks, ORCHID */
    {{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documents */
    {{0x3f, 0xff, 0x00}, 20},       /* documents */
    {{0x5f, 0x00}, 16},             /* segment routing */
    {{0xfc}, 7},                    /* unique local: private */
    {{0xfe, 0x80}, 10},             /* link-local */
    {{0xfe, 0xc0}, 10},             /* site-local, of old */
    {{0xff}, 8},                    /* multicast */
};

static bool is_in(const uint8_t *address, const struct block *b)
{
    unsigned whole = b->bits / 8;
    uint8_t mask = (uint8_t)(0xff00U >> b->bits % 8);

    return memcmp(address, b->bytes, whole) == 0 &&
           (b->bits % 8 == 0 || (address[whole] & mask) == b->bytes[whole]);
}

static bool ip4_is_public(const uint8_t *address)
{
    for (size_t i = 0; i < sizeof ip4_blocks / sizeof ip4_blocks[0]; i++) {
        if (is_in(address, &ip4_blocks[i])) {
            return false;
        }
    }
    return true;
}

/* Where an address of IPv4 stands inside one of IPv6; NULL: there is none. */
static const uint8_t *ip4_inside(const uint8_t *address)
{
    static const struct block mapped = {{[10] = 0xff, [11] = 0xff}, 96};
    static const struct block translated = {{[8] = 0xff, [9] = 0xff}, 96};
    static const struct block nat64 = {{0x00, 0x64, 0xff, 0x9b}, 96};
    static const struct block six_to_four = {{0x20, 0x02}, 16};

    if (is_in(address, &mapped) || is_in(address, &translated) || is_in(address, &nat64)) {
        return address + 12;
    }
    return is_in(address, &six_to_four) ? address + 2 : NULL;
}

static bool ip6_is_public(const uint8_t *address)
{
    const uint8_t *inside = ip4_inside(address);

    if (inside != NULL) {
        return ip4_is_public(inside);
    }
    for (size_t i = 0; i < sizeof ip6_blocks / sizeof ip6_blocks[0]; i++) {
        if (is_in(address, &ip6_blocks[i])) {
            return false;
        }
    }
    return true;
}

bool tr_guard_allows(const struct sockaddr *address, socklen_t len, bool allow_private)
{
    struct sockaddr_in ip4;
    struct sockaddr_in6 ip6;

    if (address->sa_family == AF_INET && len >= sizeof ip4) {
        memcpy(&ip4, address, sizeof ip4);
        return allow_private || ip4_is_public((const uint8_t *)&ip4.sin_addr);
    }
    if (address->sa_family == AF_INET6 && len >= sizeof ip6) {
        memcpy(&ip6, address, sizeof ip6);
        return allow_private || ip6_is_public(ip6.sin6_addr.s6_addr);
    }
    return false;
}

bool tr_guard_literal(const char *host, size_t len, bool *allowed)
{
    char text[INET6_ADDRSTRLEN];
    uint8_t bytes[16];

    if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
        host++;
        len -= 2;
    }
    if (len == 0 || len >= sizeof text) {
        return false;
    }
    memcpy(text, host, len);
    text[len] = '\0';
    if (inet_pton(AF_INET, text, bytes) == 1) {
        *allowed = ip4_is_public(bytes);
        return true;
    }
    if (inet_pton(AF_INET6, text, bytes) == 1) {
        *allowed = ip6_is_public(bytes);
        return true;
    }
    return false;
}
