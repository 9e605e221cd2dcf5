// SPDX-License-Identifier: Apache-2.0
// The instruction table of ms_custom_ops/program/isa as C++ (isa_names.inc, isa_rows.inc, both generated), with the
// check and the handler of each instruction.
#pragma once

#include <string>
#include <vector>

#include "program.h"

namespace mco {

class Machine;
struct Plan;

using Handler = void (*)(Machine&, const Instr&);
using Check = void (*)(const Program&, const Instr&);

// Numbers of operands, arguments and attributes: isa::vadd::dst, isa::data_move::burst.
namespace isa {
#include "isa_names.inc"
}

// What an argument is; all but Value are integers, all but Mask, Word and Value are not negative.
enum class ArgKind : uint8_t { Count, Bytes, Elements, Blocks, Fractals, Mask, Word, Value };

struct OperandRow {
  const char* name;
  bool read, written;
  int read_if;         // -1, or the number of the attribute that decides whether it is read: where that is true,
  bool read_where;     // or is not
  int start_elements;  // in UB its start is aligned to so many elements; 0: to a block
};
struct ArgRow {
  const char* name;
  ArgKind kind;
  int64_t low, high;
  int64_t run_low, run_high;  // of a value that is known only while running
};
struct AttrRow {
  const char* name;
  int64_t low, high;
  uint64_t listed;  // not 0: only the values whose bits are set
  const char* accepted;
  bool allows(int64_t v) const { return v >= low && v <= high && (listed == 0 || (listed >> v & 1)); }
};

// Rows that follow each other.
template <class T>
struct Rows {
  const T* first = nullptr;
  size_t count = 0;
  size_t size() const { return count; }
  const T& operator[](size_t i) const { return first[i]; }
  const T* begin() const { return first; }
  const T* end() const { return first + count; }
};

// Numbers of the arguments that give an instruction its lanes: operands with block strides, dst first.
struct LaneShape {
  int operands = 0;
  int tensor[4] = {-1, -1, -1, -1};
  int blk[4] = {-1, -1, -1, -1}, rep[4] = {-1, -1, -1, -1};
  int repeat = -1, mask0 = -1, mask1 = -1;
  int mask_kind = -1;  // attribute
};

class Use;
struct Touched;
using AccessOf = void (*)(const Use&, int operand, Touched&);
constexpr int kPipes = 7, kAllPipes = 7, kByRoute = 8, kNoPipe = -1;

struct OpInfo {
  std::string name;
  Rows<OperandRow> tensors;
  Rows<ArgRow> args;
  Rows<AttrRow> attrs;
  Check check;  // what can be refused while loading: dtypes, scopes
  Handler run;
  int code;  // for handlers that serve several instructions
  int pipe;  // PIPES number, or kByRoute
  AccessOf access;
  LaneShape shape;
};

// Bytes to which the start of operand `tensor` of an instruction must be aligned. The compare mask is moved by its own
// width: masks of repeats lie back to back, as comparisons write them.
int64_t start_align(const Program& p, const Instr& instr, size_t tensor);

// PIPES number of the pipe that executes an instruction; kNoPipe where the chip has no such way.
int pipe_of(const Program& p, const Instr& instr);
const char* pipe_name(int pipe);

// Null when there is no such instruction.
const OpInfo* find_op(const std::string& name);

// By its number in the table, which counts rows from 0.
const OpInfo* op_at(size_t number);

// An instruction `name` (null: there is none) with so many tensors, arguments and attributes; throws Error.
void check_counts(const Program& p, const std::string& name, const OpInfo* op, size_t tensors, size_t args,
                  size_t attrs, uint32_t loc);
// The kind of its step.
What kind_of(const std::string& name);

// Checks common to all instructions, then OpInfo::check; settles constant places and, where there is memory for it,
// prepares what constant arguments allow. Throws Error.
void check_instr(const Program& p, Instr& instr, Chunks* memory);

// Value of an argument, refused outside of the range of its row.
int64_t ranged(const Machine& m, const Instr& instr, int index, int64_t value);
// The same of an argument that must not be negative.
int64_t ranged_arg(const Machine& m, const Instr& instr, int index);
// Lists that a valid_bit of vmrgsort has merged; 0: it is none.
inline int64_t lists_of(int64_t valid_bit) {
  return valid_bit == 15 ? 4 : valid_bit == 7 ? 3 : valid_bit == 3 ? 2 : valid_bit == 1 ? 1 : 0;
}

// Error "<op>: <what> is <given>; accepted: <accepted> [file:line]".
[[noreturn]] void refuse(const Program& p, const Instr& instr, const std::string& what, const std::string& given,
                         const std::string& accepted);

// Checks on dtypes and scopes of operands.
void need_dtype(const Program& p, const Instr& instr, int tensor, uint32_t accepted);
void need_same_dtype(const Program& p, const Instr& instr, int first, int other);
void need_scope(const Program& p, const Instr& instr, int tensor, uint32_t scope_bits);

constexpr uint32_t bit(int n) { return 1u << n; }
constexpr uint32_t kFloats = bit(F16) | bit(BF16) | bit(F32);
constexpr uint32_t kIntegers = bit(I8) | bit(U8) | bit(I16) | bit(U16) | bit(I32) | bit(U32);
constexpr uint32_t kNumeric = kFloats | kIntegers;
constexpr uint32_t kWords16 = bit(I16) | bit(U16);
constexpr uint32_t kOnChip = bit(UB) | bit(L1) | bit(L0A) | bit(L0B) | bit(L0C) | bit(BT) | bit(SMASK);

}  // namespace mco
