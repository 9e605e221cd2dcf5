// SPDX-License-Identifier: Apache-2.0
// Tensors, scalars and arrays as callers made them.
#pragma once

#include "common.h"

namespace mco_acl {

constexpr uint64_t kMostDims = 16;

// A view of memory; sizes and strides in elements.
struct View {
  std::vector<int64_t> dims, strides, storage;
  int64_t offset = 0;
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_ND;
  void* data = nullptr;  // where the storage begins

  int64_t elements() const;
  bool contiguous() const;
  // Two elements lie at one place.
  bool overlaps() const;
  // Elements from the storage's first to behind the view's last; 0 for an empty view.
  int64_t extent() const;
};

struct Tensor : Object {
  View view;
};
struct Scalar : Object {
  aclDataType dtype = ACL_DT_UNDEFINED;
  unsigned char bytes[16] = {};
};
template <class T>
struct Array : Object {
  std::vector<T> values;
};
using IntArray = Array<int64_t>;
using FloatArray = Array<float>;
using BoolArray = Array<unsigned char>;
using List = Array<const void*>;  // of handles

// Name of a dtype ("float16"); "" for a number that is none.
const char* dtype_name(aclDataType dtype);
// A layout of plain rows: ND and the formats that only name its axes.
bool plain(aclFormat format);
std::string format_name(aclFormat format);

}  // namespace mco_acl
