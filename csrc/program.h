// SPDX-License-Identifier: Apache-2.0
// A loaded Program: tables, compiled expressions and the statement tree, read-only while it runs.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base.h"
#include "expr.h"

namespace mco {

enum class Kind : uint8_t { Input, Output, Workspace, Local };

struct Buffer {
  std::string name;
  Scope scope = GM;
  DType dtype = F16;
  Kind kind = Kind::Local;
  bool atomic_init = false;
  bool has_init = false;
  double init_value = 0;
  int64_t size_bytes = 0;  // -1: known when it is fed
  int64_t address = 0;
  uint32_t loc = 0;
  std::vector<int64_t> dims;
};

struct Register {
  std::string name;
  DType dtype = I32;
  uint8_t kind = 0;
};

// A tensor operand: `offset` (a root expression) elements of `dtype` into a buffer.
struct Operand {
  uint32_t buffer = 0;
  uint32_t offset = 0;
  DType dtype = F16;
  uint8_t size = 2;
  // A place that loading has settled: a constant one in on-chip memory. `room` is 0 for any other.
  uint32_t start = 0;  // bytes into the buffer
  uint32_t room = 0;   // bytes from there to its end
  bool holds(Wide lo, Wide hi) const { return lo >= 0 && lo < hi && hi <= room; }
};

struct OpInfo;
struct Plan;  // what an instruction with constant arguments computed once

struct Instr {
  const OpInfo* op = nullptr;
  std::shared_ptr<const Plan> plan;  // null when an argument is known only at run time
  std::vector<Operand> tensors;
  std::vector<uint32_t> args;
  std::vector<int64_t> attrs;
  uint32_t loc = 0;
};

struct Statement;
using Body = std::vector<Statement>;

enum class What : uint8_t { Instr, For, If, Assign, Load, Store, Alloc, Jump };
enum class Flow : uint8_t { Break, Continue, Return, Next };

struct Statement {
  What what = What::Alloc;
  Flow jump = Flow::Next;
  bool block = false;  // For: the multi-core loop
  uint32_t loc = 0;
  uint32_t index = 0;     // register (For, Assign, Load) or buffer (Alloc)
  uint32_t a = 0, b = 0;  // root expressions: For begin and end, If cond, Assign and Store value
  std::unique_ptr<Instr> instr;
  Operand ref;  // Load, Store
  Body body, orelse;
};

struct Program {
  std::string name, soc;
  bool saturate = true;
  int64_t scope_bytes[kScopes] = {};
  int64_t arena_bytes[kScopes] = {};  // what the buffers really need
  std::vector<Buffer> buffers;
  std::vector<Register> registers;
  ExprTable exprs;
  std::vector<std::pair<std::string, uint32_t>> locations;
  std::vector<uint32_t> inputs, outputs, workspaces, input_scalars;
  std::vector<std::pair<std::string, std::string>> meta;
  Body body;
  const Statement* block_loop = nullptr;  // null: the program is one block
  bool has_barrier = false;

  std::string location(uint32_t loc) const;
};

// Decodes and checks untrusted bytes; throws Error.
std::unique_ptr<Program> decode_program(const uint8_t* bytes, size_t size);

}  // namespace mco
