#ifndef TR_BASE_CRC_H
#define TR_BASE_CRC_H

/* CRC-32C (Castagnoli): with the CPU's instruction where there is one, else by table. */

#include <stddef.h>
#include <stdint.h>

/* Goes on from crc (0 to begin) over len bytes: crc(crc(0, a), b) = crc(0, ab). */
uint32_t tr_crc(uint32_t crc, const void *p, size_t len);

/* The same by table, whatever the CPU; for tests. */
uint32_t tr_crc_table(uint32_t crc, const void *p, size_t len);

/* Begins a crc that also covers a number that is not in the bytes. */
uint32_t tr_crc_seed(uint64_t seed);

#endif
