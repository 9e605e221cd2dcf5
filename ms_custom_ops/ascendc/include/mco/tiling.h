// SPDX-License-Identifier: Apache-2.0
// Tiling data as a kernel reads it.
#pragma once

#include <cstring>

#include "mco/system.h"

namespace mco_asc {

template <class T>
inline T tiling_at(const void* at, size_t offset, const char* call, const char* file, uint32_t line) {
  T value;
  uint8_t* from = static_cast<uint8_t*>(const_cast<void*>(at)) + offset;
  const mco_asc_where where = {call, file, line};
  std::memcpy(static_cast<void*>(&value), mco_asc_touch(&where, from, nullptr, int64_t(sizeof(T)), MCO_ASC_GM),
              sizeof value);
  return value;
}

}  // namespace mco_asc

// build() defines the struct's name from the host header among the sources; the kernel of one tiling key has its own.
#ifdef MCO_ASC_STRUCT_OF_KEY
#define MCO_ASC_TILING_STRUCT MCO_ASC_STRUCT_OF_KEY
#else
#define MCO_ASC_TILING_STRUCT TILING_STRUCT_OF_A_HOST_HEADER_GIVEN_TO_BUILD
#endif
#define GET_TILING_DATA(name, at) \
  auto name = mco_asc::tiling_at<MCO_ASC_TILING_STRUCT>(at, 0, "GET_TILING_DATA", __FILE__, __LINE__)
#define GET_TILING_DATA_WITH_STRUCT(type, name, at) \
  auto name = mco_asc::tiling_at<type>(at, 0, "GET_TILING_DATA_WITH_STRUCT", __FILE__, __LINE__)
#define GET_TILING_DATA_PTR_WITH_STRUCT(type, name, at) __gm__ type* name = (__gm__ type*)(at)
#define GET_TILING_DATA_MEMBER(type, member, name, at)                                                         \
  auto name = mco_asc::tiling_at<decltype(type::member)>(at, offsetof(type, member), "GET_TILING_DATA_MEMBER", \
                                                         __FILE__, __LINE__)
#define COPY_TILING_WITH_STRUCT(type, at, to) (*(to) = *(at))
#define COPY_TILING_WITH_ARRAY(type, count, at, to) std::memcpy((to), (at), sizeof(type) * (count))
#define REGISTER_TILING_DEFAULT(type) using TILING_STRUCT_OF_A_HOST_HEADER_GIVEN_TO_BUILD = type
#define REGISTER_TILING_FOR_TILINGKEY(condition, type)
#define TILING_KEY_IS(key) (mco_asc_this_core("TILING_KEY_IS")->tiling_key == uint64_t(key))
#ifndef TILING_KEY_VAR  // a kernel whose preprocessor asks for it is built for one key, by a define
#define TILING_KEY_VAR (mco_asc_this_core("TILING_KEY_VAR")->tiling_key)
#endif
#define TILING_KEY_LIST(...)
