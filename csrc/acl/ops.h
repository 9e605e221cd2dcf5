// SPDX-License-Identifier: Apache-2.0
// The functions of the ops: their tables are generated (ops.cc; for other libraries: custom.cc), what they do is here.
#pragma once

#include "common.h"

namespace mco_acl {

enum class Type : uint8_t {
  kInput,
  kOutput,
  kInts,
  kInt,
  kFloat,
  kBool,
  kText,
  kFloats,
  kBools,
  kInputs,  // lists of tensors, of ops of other libraries (custom.cc)
  kOutputs
};

// Where a tensor stands in a list that the caller passes as one.
enum class InList : uint8_t { kNo, kFirst, kNext };

// `name` as Python and the texts have it. `optional`: null is accepted.
struct Param {
  const char* name;
  Type type;
  bool optional;
  InList in_list = InList::kNo;
};

struct Op {
  const char* name;  // "FlashAttentionScore"
  const char* op;    // "flash_attention_score"
  const Param* params;
  int count;
  const char* project = "";    // folder of the Ascend C project that the op is of; "": an op of this package
  const Op* caller = nullptr;  // the op as its caller knows it, where this one has the tensors of lists one by one
};
// Null is told from a value.
inline bool is_pointer(Type type) { return type != Type::kInt && type != Type::kFloat && type != Type::kBool; }

struct Argument {
  const void* handle = nullptr;  // of a tensor or an array; a text
  int64_t i = 0;
  double f = 0;
};
inline Argument of(const aclTensor* x) { return {x, 0, 0}; }
inline Argument of(const aclIntArray* x) { return {x, 0, 0}; }
inline Argument of(const char* x) { return {x, 0, 0}; }
inline Argument of(int64_t x) { return {nullptr, x, 0}; }
inline Argument of(bool x) { return {nullptr, x, 0}; }
inline Argument of(double x) { return {nullptr, 0, x}; }

// Checks a call and gives its executor; `arguments` has one entry for each parameter. `owner` keeps an op alive that is
// not a library's.
aclnnStatus first_phase(const Op& op, const Argument* arguments, uint64_t* workspaceSize, aclOpExecutor** executor,
                        std::shared_ptr<const void> owner = nullptr);
// Runs it on the stream.
aclnnStatus second_phase(const Op& op, void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                         aclrtStream stream);

}  // namespace mco_acl
