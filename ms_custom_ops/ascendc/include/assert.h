// SPDX-License-Identifier: Apache-2.0
// assert of device code: a condition, with or without a message in the form of printf. No guard: the library's has
// none.
#include_next <assert.h>
#ifndef NDEBUG
#undef assert
#define MCO_ASC_FIRST(FIRST, ...) FIRST
#define MCO_ASC_FIRST_TEXT(FIRST, ...) #FIRST
#define assert(...)                                 \
  (static_cast<bool>(MCO_ASC_FIRST(__VA_ARGS__, 0)) \
       ? void(0)                                    \
       : __assert_fail(MCO_ASC_FIRST_TEXT(__VA_ARGS__, 0), __FILE__, __LINE__, __func__))
#endif
