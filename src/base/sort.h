#ifndef TR_BASE_SORT_H
#define TR_BASE_SORT_H

/*
 * Sorting of many items by a number, stable. See sort.c. Who wants the order of two numbers sorts
 * by the lesser one first, then puts the greater one in its place and sorts again.
 */

#include <stddef.h>
#include <stdint.h>

struct tr_sort_item {
    uint64_t key;
    uint32_t more; /* goes along */
    uint32_t at;   /* what the item stands for: an index of the caller's */
};

struct tr_sort {
    struct tr_sort_item *items;
    struct tr_sort_item *spare; /* as many; the two may have changed places after a sort */
};

/* Sorts items[from, to) by key. The other items stay. */
void tr_sort(struct tr_sort *s, size_t from, size_t to);

#endif
