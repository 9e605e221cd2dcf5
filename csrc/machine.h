// SPDX-License-Identifier: Apache-2.0
// State of one block while it runs: registers, views of its tensors, its atomic mode.
#pragma once

#include <vector>

#include "arena.h"
#include "atomics.h"
#include "instruction.h"
#include "program.h"
#include "simd/kernels.h"

namespace mco {

class Run;

struct View {
  uint8_t* base = nullptr;
  int64_t size = 0;
};

class Machine {
 public:
  Machine(const Program& program, Run& run, Arena& arena, const std::vector<View>& gm);
  ~Machine() { give_log(std::move(log_)); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Walks the whole body as block `block` of the multi-core loop.
  void run_block(int64_t block, int64_t register_value);
  // After run_block, also when it failed: hands over what must land in block order.
  void end_block(int64_t block);

  // Integer argument that must not be negative.
  int64_t arg(const Instr& in, int index) const {
    const int64_t v = raw_arg(in, index);
    if (v < 0) refuse_negative(in, index, v);
    return v;
  }
  // Argument as it is: a 64-bit pattern, or a value converted to a dtype.
  int64_t raw_arg(const Instr& in, int index) const { return eval(in.args[size_t(index)], in.loc).i; }
  Value value_arg(const Instr& in, int index, DType to) const;

  // Address of operand `tensor`; bytes [lo, hi) from there are checked against its buffer. With lo >= hi nothing is
  // checked and nothing may be accessed.
  uint8_t* read(const Instr& in, int tensor, Wide lo, Wide hi) {
    const Operand& o = in.tensors[size_t(tensor)];
    return o.holds(lo, hi) ? views_[o.buffer].base + o.start : read_any(in, tensor, lo, hi);
  }
  uint8_t* write(const Instr& in, int tensor, Wide lo, Wide hi) {
    const Operand& o = in.tensors[size_t(tensor)];
    if (!o.holds(lo, hi)) return write_any(in, tensor, lo, hi);
    uint8_t* at = views_[o.buffer].base + o.start;
    note_write(program.buffers[o.buffer].scope, at, lo, hi);
    return at;
  }

  // Address of a move's operand of `extent` bytes. Memory on the device is allocated as ALIGN_UP(n, 32) + 32 bytes, so
  // a move of whole blocks may end behind a GM tensor by that much; `room` is then what of the extent the tensor
  // holds, else INT64_MAX.
  uint8_t* move_operand(const Instr& in, int tensor, Wide extent, bool written, int64_t& room);

  Scope scope(const Instr& in, int tensor) const { return program.buffers[in.tensors[size_t(tensor)].buffer].scope; }
  [[noreturn]] void refuse(const Instr& in, const char* what, const std::string& given,
                           const std::string& accepted) const {
    mco::refuse(program, in, what, given, accepted);
  }

  // Bytes that reach GM from an instruction: written, or added in the block's atomic mode.
  void to_gm(const Instr& in, int tensor, uint8_t* at, const uint8_t* bytes, int64_t size);

  void arrive_at_barrier(const Instr& in);

  const Program& program;
  Run& run;
  Arena& arena;
  const Kernels& kernels;
  bool saturate;           // of 16-bit floats; set_mode changes it
  bool wrap_int = false;   // vconv into an integer keeps the low bits
  DType atomic = kDTypes;  // kDTypes: moves to GM overwrite

 private:
  Flow body(const Body& statements);
  Flow loop(const Statement& s);
  void assign(const Statement& s);
  void load(const Statement& s);
  void store(const Statement& s);
  Value eval(uint32_t root, uint32_t loc) const {
    return program.exprs.is_constant(root) ? program.exprs.expr(root).c : eval_registers(root, loc);
  }
  Value eval_registers(uint32_t root, uint32_t loc) const;
  [[noreturn]] void refuse_negative(const Instr& in, int index, int64_t given) const;
  uint8_t* read_any(const Instr& in, int tensor, Wide lo, Wide hi);
  uint8_t* write_any(const Instr& in, int tensor, Wide lo, Wide hi);
  void note_write(Scope where, const uint8_t* at, Wide lo, Wide hi) {
    const uint8_t* base = arena.base(where);
    arena.note_write(where, at + int64_t(lo) - base, at + int64_t(hi) - base);
  }
  uint8_t* near(const Operand& o, uint32_t loc, Wide lo, Wide hi, bool settled);
  uint8_t* locate(const Operand& o, const char* op, const char* name, uint32_t loc, Wide lo, Wide hi, bool settled);
  void settle();  // waits for the block's turn and lands its logged adds

  Registers registers_;
  AtomicLog log_ = take_log();
  std::vector<View> views_;
  int64_t block_ = 0, block_value_ = 0;
};

}  // namespace mco
