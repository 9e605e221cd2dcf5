// SPDX-License-Identifier: Apache-2.0
// A loaded Program: tables, compiled expressions and the stream of steps, read-only while it runs.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base.h"
#include "expr.h"
#include "stream.h"

namespace mco {

// A string of the program's table, which lives as long as the program.
class Name {
 public:
  Name() = default;
  explicit Name(const std::string& text) : of_(text.c_str()) {}
  explicit Name(const char* text) : of_(text) {}
  // What `make` makes of `of` when somebody asks: names of what comes and goes are for errors alone.
  using Make = const char* (*)(const void* of);
  Name(Make make, const void* of) : make_(make), of_(of) {}
  const char* c_str() const { return make_ ? make_(of_) : static_cast<const char*>(of_); }

 private:
  Make make_ = nullptr;
  const void* of_ = "";
};

class Sequences;

enum class Kind : uint8_t { Input, Output, Workspace, Local };

struct Buffer {
  Name name;
  Scope scope = GM;
  DType dtype = F16;
  Kind kind = Kind::Local;
  bool atomic_init = false;
  bool has_init = false;
  double init_value = 0;
  std::vector<uint8_t> table;  // what it starts with; empty, or of size_bytes
  int64_t size_bytes = 0;      // -1: known when it is fed
  int64_t address = 0;
  std::vector<int64_t> copies;  // addresses of the copies for further threads of loops with thread_num
  uint32_t loc = 0;
  std::vector<int64_t> dims;
};

// Where a buffer on chip lies: what every block that starts looks at, side by side.
struct Local {
  uint32_t buffer = 0;
  Scope scope = UB;
  int64_t address = 0, bytes = 0;
};

struct Register {
  Name name;
  DType dtype = I32;
  uint8_t kind = 0;
};

struct Location {
  Name file;
  uint32_t line = 0;
};

struct Program {
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::vector<std::string> strings;  // what every Name points at
  Name name;
  bool saturate = true;
  bool split_cores = false;  // cube and vector units are separate cores
  int64_t scope_bytes[kScopes] = {};
  int64_t arena_bytes[kScopes] = {};  // what the buffers really need
  std::vector<Buffer> buffers;
  std::vector<Local> locals;
  std::vector<Register> registers;
  ExprTable exprs;
  std::vector<Location> locations;
  std::vector<uint32_t> inputs, outputs, workspaces, input_scalars;
  std::vector<std::pair<Name, Name>> meta;
  Stream stream;
  std::shared_ptr<Sequences> sequences;  // null where no instruction waits

  std::string location(uint32_t loc) const;
};

// Decodes and checks untrusted bytes; throws Error.
std::unique_ptr<Program> decode_program(const uint8_t* bytes, size_t size);

}  // namespace mco
