/* For the programs in C of this folder: what is not as it must be is said with its line, and decides main()'s status.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <string.h>

#include "kiln.h"

static int failures = 0;

#define CHECK(condition)                                                                                        \
  do {                                                                                                          \
    if (!(condition)) {                                                                                         \
      printf("%s:%d: %s is false; the last error: %s\n", __FILE__, __LINE__, #condition, kiln_error_message()); \
      ++failures;                                                                                               \
    }                                                                                                           \
  } while (0)

#define CHECK_OK(call) CHECK((call) == KILN_OK)

/* The call fails with this status, and its message has these words. */
#define CHECK_FAILS(call, status, words)                                                                              \
  do {                                                                                                                \
    const kiln_status got = (call);                                                                                   \
    if (got != (status) || strstr(kiln_error_message(), (words)) == NULL) {                                           \
      printf("%s:%d: %s gives %s \"%s\", and not %s with \"%s\"\n", __FILE__, __LINE__, #call, kiln_status_name(got), \
             kiln_error_message(), kiln_status_name(status), (words));                                                \
      ++failures;                                                                                                     \
    }                                                                                                                 \
  } while (0)

static inline kiln_array array_of(void* data, kiln_type type, int32_t rank, const int64_t* shape) {
  kiln_array out;
  memset(&out, 0, sizeof out);
  out.data = data;
  out.shape = shape;
  out.rank = rank;
  out.type = type;
  return out;
}

static inline kiln_array output_of(void* data, kiln_type type, int32_t rank, const int64_t* shape) {
  kiln_array out = array_of(data, type, rank, shape);
  out.flags = KILN_WRITABLE;
  return out;
}

#endif
