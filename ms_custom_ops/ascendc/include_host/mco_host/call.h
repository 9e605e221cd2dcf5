// SPDX-License-Identifier: Apache-2.0
// One call of an op as its host functions see it: tensors, attributes, the chip, and what the functions answer.
#ifndef MCO_HOST_CALL_H_
#define MCO_HOST_CALL_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "mco_host/chip.h"
#include "mco_host/shape.h"

namespace mco_host {

struct Attribute {
  enum Kind { kBool, kInt, kFloat, kString, kInts, kFloats, kBools, kIntLists };
  Kind kind = kInt;
  int64_t integer = 0;  // code reads it through pointers to narrower integers too; the low bytes come first
  float real = 0;
  bool boolean = false;
  std::string text;
  std::unique_ptr<uint8_t[]> list;
  gert::ContinuousVectorVector lists;

  const void* Address() const {
    switch (kind) {
      case kBool:
        return &boolean;
      case kInt:
        return &integer;
      case kFloat:
        return &real;
      case kString:
        return text.c_str();
      case kIntLists:
        return &lists;
      default:
        return list.get();
    }
  }
};

struct TensorOfCall {
  gert::Tensor tensor;
  gert::CompileTimeTensorDesc desc;
};

// The instances of one input or output of the definition: none where it is absent, several where it is dynamic.
struct Instances {
  size_t first = 0, count = 0;
};

struct Call {
  std::string op;
  Chip chip;
  std::deque<TensorOfCall> inputs, outputs;  // instances, in order
  std::vector<Instances> input_map, output_map;
  std::deque<Attribute> attributes;
  bool deterministic = false;

  // What tiling answers.
  uint32_t block_dim = 0;
  uint64_t tiling_key = 0;
  uint32_t schedule_mode = 0, local_memory = 0;
  int32_t tiling_condition = 0;
  bool need_atomic = false;
  std::vector<uint8_t> tiling;
  size_t tiling_size = 0;
  std::vector<size_t> workspaces;
  std::shared_ptr<void> compile_info;

  const TensorOfCall* Instance(bool output, size_t index) const {
    const auto& list = output ? outputs : inputs;
    return index < list.size() ? &list[index] : nullptr;
  }
  const TensorOfCall* OfDefinition(bool output, size_t ir_index, size_t relative) const {
    const auto& map = output ? output_map : input_map;
    if (ir_index >= map.size() || relative >= map[ir_index].count) return nullptr;
    return Instance(output, map[ir_index].first + relative);
  }
};

}  // namespace mco_host

#endif  // MCO_HOST_CALL_H_
