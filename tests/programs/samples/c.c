#include <stdio.h>
#define LIMIT 10
#define MAX(a, b) \
    ((a) > (b) ? (a) : (b))

typedef struct node {
    int value;
    struct node *next;
    unsigned flag : 1;
} node_t;

enum colour { RED, GREEN = 2 };

static int (*handler)(int, char **);

/** Adds a value. */
static node_t *
push(node_t *list, int value)
{
    node_t *made = malloc(sizeof *made), *other = NULL;

    if (!made)
        goto fail;
    made->value = value;
    made->next = list;
#ifdef DEBUG
    printf("pushed %d {\n", value);
#endif
    return made;
fail:
    return other;
}

/**
 * @brief Sums a list.
 */
int sum(const node_t *list) {
    int total = 0, counts[LIMIT] = {0, [3] = 1};
    for (; list; list = list->next) {
        switch (list->value) {
        case 0:
        case '}':
            continue;
        default:
            total += MAX(list->value, 0);
        }
    }
    do {
        total--;
    } while (total > 100 && counts[0]);
    return total;
}
