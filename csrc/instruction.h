// SPDX-License-Identifier: Apache-2.0
// The instruction table: names, operand roles, arguments, attributes and handlers, as in ms_custom_ops/program/isa.py.
#pragma once

#include <string>
#include <vector>

#include "program.h"

namespace mco {

class Machine;
struct Plan;

using Handler = void (*)(Machine&, const Instr&);
using Check = void (*)(const Program&, const Instr&);

// Numbers of the arguments that give an instruction its lanes: operands with block strides, dst first.
struct LaneShape {
  int operands = 0;
  int tensor[4] = {-1, -1, -1, -1};
  int blk[4] = {-1, -1, -1, -1}, rep[4] = {-1, -1, -1, -1};
  int repeat = -1, mask0 = -1;
};

struct OpInfo {
  std::string name;
  std::vector<std::string> tensors, args, attrs;  // tensor names without their marks
  std::vector<bool> written;                      // "*" and "+"
  Check check;                                    // what can be refused while loading: dtypes, scopes, attributes
  Handler run;
  int code;  // for handlers that serve several instructions
  LaneShape shape;
};

LaneShape lane_shape(const OpInfo& op);

// Null when there is no such instruction.
const OpInfo* find_op(const std::string& name);

// Checks common to all instructions, then OpInfo::check; settles constant places and, where there is memory for it,
// prepares what constant arguments allow. Throws Error.
void check_instr(const Program& p, Instr& instr, Chunks* memory);

// Number of an argument or attribute of the table; the name must exist.
int arg_index(const OpInfo& op, const char* name);
int attr_index(const OpInfo& op, const char* name);

// Error "<op>: <what> is <given>; accepted: <accepted> [file:line]".
[[noreturn]] void refuse(const Program& p, const Instr& instr, const std::string& what, const std::string& given,
                         const std::string& accepted);

// Checks on dtypes and scopes of operands.
void need_dtype(const Program& p, const Instr& instr, int tensor, uint32_t accepted);
void need_same_dtype(const Program& p, const Instr& instr, int first, int other);
void need_scope(const Program& p, const Instr& instr, int tensor, uint32_t scope_bits);
void need_attr(const Program& p, const Instr& instr, const char* name, int64_t low, int64_t high);

constexpr uint32_t bit(int n) { return 1u << n; }
constexpr uint32_t kFloats = bit(F16) | bit(BF16) | bit(F32);
constexpr uint32_t kIntegers = bit(I8) | bit(U8) | bit(I16) | bit(U16) | bit(I32) | bit(U32);
constexpr uint32_t kNumeric = kFloats | kIntegers;
constexpr uint32_t kWords16 = bit(I16) | bit(U16);
constexpr uint32_t kOnChip = bit(UB) | bit(L1) | bit(L0A) | bit(L0B) | bit(L0C) | bit(BT) | bit(SMASK);

}  // namespace mco
