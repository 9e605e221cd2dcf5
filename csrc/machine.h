// SPDX-License-Identifier: Apache-2.0
// State of one block: where it stands in the stream, its loops, registers, on-chip memory, log of adds and modes. All
// of it lies here and none on the stack, so that a block can rest at a barrier and go on later on any thread.
#pragma once

#include <memory>
#include <vector>

#include "arena.h"
#include "atomics.h"
#include "instruction.h"
#include "observer.h"
#include "pieces.h"
#include "program.h"
#include "rows.h"
#include "simd/kernels.h"
#include "watch.h"

namespace mco {

struct View {
  uint8_t* base = nullptr;
  int64_t size = 0;
};

[[noreturn]] void fail_scalar(const Program& p, const EvalError& e, uint32_t loc);

// What a block shares with the other blocks of its run.
struct Shared {
  BlockOrder& order;
  Watch& watch;
  bool deterministic;
  bool alone = false;     // no other thread adds to GM meanwhile
  bool straight = false;  // on-chip memory is looked at by instructions alone
};

class Machine {
 public:
  // `gm`: the views of the buffers in GM. The observer, if any, outlives the machine.
  Machine(const Program& program, const Shared& shared, const std::vector<View>& gm, Observer* observer)
      : Machine(program, shared, gm, observer, take_arena()) {}
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Sets the state that a block starts with: at the first step, the modes of the program, no register but the inputs.
  void start(int64_t block, int64_t register_value, const Registers& inputs);
  // Walks the steps from where the block stands to its end or behind the next barrier.
  Outcome resume();
  // After the last step, also when it failed: hands over what must land in block order.
  void end(int64_t block);
  // At a barrier: the same, and where the block waits.
  void arrive(int64_t block);
  // Executes one instruction.
  void execute(const Instr& in);
  // The memory of the next buffer of the program, which grows by it.
  void add_view(View v);
  // The memory of a buffer from here on.
  void set_view(uint32_t buffer, View v) {
    if (reports_) {
      sizes_[buffer] = v.size;
      v.size = -1;
    }
    views_[buffer] = v;
  }
  // Where accesses are reported none is near, so that the fast way has no branch for it.
  View view(uint32_t buffer) const { return reports_ ? View{views_[buffer].base, sizes_[buffer]} : views_[buffer]; }
  // Whether the run must end: its time is over, or the caller asked.
  bool must_stop() const { return shared_.watch.stopped() != Watch::Stop::None; }

  // Integer argument that must not be negative, nor out of the range of its row where it is known only now.
  int64_t arg(const Instr& in, int index) const {
    const uint32_t root = in.args[size_t(index)];
    if (!program.exprs.is_constant(root)) return running_arg(in, index);
    const int64_t v = program.exprs.expr(root).c.i;
    if (v < 0) refuse_negative(in, index, v);
    return v;
  }
  // Argument as it is: a 64-bit pattern, or a value converted to a dtype.
  int64_t raw_arg(const Instr& in, int index) const { return eval(in.args[size_t(index)], in.loc).i; }
  Value value_arg(const Instr& in, int index, DType to) const;
  // Offset of an operand, in elements of it.
  int64_t elements(const Operand& o, uint32_t loc) const { return eval(o.offset, loc).i; }

  // Address of operand `tensor`; bytes [lo, hi) from there are checked against its buffer. With lo >= hi nothing is
  // checked and nothing may be accessed.
  uint8_t* read(const Instr& in, int tensor, Wide lo, Wide hi) {
    const Operand& o = in.tensors[size_t(tensor)];
    return o.holds(lo, hi) ? views_[o.buffer].base + o.start : read_any(in, tensor, lo, hi);
  }
  uint8_t* write(const Instr& in, int tensor, Wide lo, Wide hi) {
    const Operand& o = in.tensors[size_t(tensor)];
    return o.holds(lo, hi) ? views_[o.buffer].base + o.start : write_any(in, tensor, lo, hi);
  }

  // The same for an operand that loading has settled with at least `bytes` bytes, more than 0, from its start on; null
  // for any other. For instructions with many operands of one extent.
  uint8_t* settled(const Operand& o, int64_t bytes) const {
    return bytes <= int64_t(o.room) ? views_[o.buffer].base + o.start : nullptr;
  }

  // Address of a move's operand of `extent` bytes. Memory on the device is allocated as ALIGN_UP(n, 32) + 32 bytes, so
  // a move of whole blocks may end behind a GM tensor by that much; `room` is then what of the extent the tensor
  // holds, else INT64_MAX.
  uint8_t* move_operand(const Instr& in, int tensor, Wide extent, bool written, int64_t& room);

  // Where an operand begins, in bytes from the start of its buffer; unchecked.
  int64_t place(const Instr& in, int tensor) const {
    const Operand& o = in.tensors[size_t(tensor)];
    return int64_t(uint64_t(eval(o.offset, in.loc).i) * o.size);
  }
  int64_t block() const { return block_; }

  // The bits of straight.h that are in force.
  uint8_t straight(const Instr& in) const { return shared_.straight ? in.straight : 0; }
  // What load2d has noted of the fractal at an address in L0A or L0B.
  Fractal& noted(Scope scope, const uint8_t* at) {
    return noted_[scope == L0A ? 0 : 1][size_t((at - arena.base(scope)) / kFractalBytes)];
  }
  // Whether the result of the product that was executed last has come to where the fixpipe behind it puts it.
  bool came = false;

  Scope scope(const Instr& in, int tensor) const { return program.buffers[in.tensors[size_t(tensor)].buffer].scope; }
  [[noreturn]] void refuse(const Instr& in, const char* what, const std::string& given,
                           const std::string& accepted) const {
    mco::refuse(program, in, what, given, accepted);
  }

  // Bytes that reach GM from an instruction: written, or added in the block's atomic mode.
  void to_gm(const Instr& in, int tensor, uint8_t* at, const uint8_t* bytes, int64_t size);

  const Program& program;
  Arena& arena;
  const Kernels& kernels;
  bool saturate;                       // of 16-bit floats; set_mode changes it
  bool wrap_int = false;               // vconv into an integer keeps the low bits
  DType atomic = kDTypes;              // kDTypes: moves to GM overwrite
  AtomicOp atomic_op = AtomicOp::Add;  // other than Add: of concurrent cores alone

 private:
  Machine(const Program& program, const Shared& shared, const std::vector<View>& gm, Observer* observer,
          std::unique_ptr<Arena> memory);

  template <class O>
  friend Outcome walk(Machine& m, O& observer);
  friend class Checker;  // executes steps itself
  friend class Flow;     // executes moves on shadows

  // An instruction with a Waiter: it waits, or is executed.
  void wait(const Instr& in);
  uint8_t* far_side(const Instr& in);
  // Executes what waits.
  void catch_up() {
    if (!waiting_.empty()) run_waiting();
    if (!rows_.empty()) rows_.run(kernels);
  }
  // The same but for rows, which wait while a loop goes on and scalars are read from UB.
  void catch_up_pieces() {
    if (!waiting_.empty()) run_waiting();
  }
  void catch_up_for_load(const Step& s);
  // An instruction with a Row: it waits, or is executed.
  void take_row(const Instr& in);
  bool gather_row(const Instr& in);
  bool add_row(const Instr& in);
  void run_waiting();
  struct Waiting {
    const Instr* instr;
    uint8_t* far;  // of a move, its address in GM
  };
  void run_one(const Waiting& w);
  void run_pieces(const Order& order, const std::vector<Waiting>& all);
  void begin_round(const Step& s, int64_t i);
  bool is_true(const Step& s) const;
  void assign(const Step& s);
  void load(const Step& s);
  void store(const Step& s);
  void store_joined(const Step& step);  // and those behind it that go with it
  void tick(uint32_t loc) {
    if (pulse_.due()) look(loc);
  }
  void look(uint32_t loc);
  Value eval(uint32_t root, uint32_t loc) const {
    return program.exprs.is_constant(root) ? program.exprs.expr(root).c : eval_registers(root, loc);
  }
  Value eval_registers(uint32_t root, uint32_t loc) const;
  int64_t running_arg(const Instr& in, int index) const;
  [[noreturn]] void refuse_negative(const Instr& in, int index, int64_t given) const;
  uint8_t* read_any(const Instr& in, int tensor, Wide lo, Wide hi);
  uint8_t* write_any(const Instr& in, int tensor, Wide lo, Wide hi);
  uint8_t* near(const Operand& o, uint32_t loc, Wide lo, Wide hi, bool settled);
  uint8_t* locate(const Operand& o, const char* op, const char* name, uint32_t loc, Wide lo, Wide hi, bool settled);
  void report(const Instr* in, int tensor, const Operand& o, const uint8_t* at, Wide lo, Wide hi, bool write,
              uint32_t loc);
  const Instr& unsettled(const Instr& in);
  void settle();  // waits for the block's turn and lands its logged adds

  struct Loop {
    int64_t i, end;
  };
  const Shared shared_;
  std::unique_ptr<Arena> arena_;
  Observer* const observer_;
  const bool reports_;  // every access, to the observer
  Pulse pulse_;
  const Step* at_ = nullptr;  // the step to execute next
  std::vector<Loop> loops_;   // by depth
  Registers registers_;
  AtomicLog log_;
  bool has_turn_ = false;          // to add at once, until the next barrier
  std::vector<Fractal> noted_[2];  // of L0A and L0B
  std::vector<View> views_;
  std::vector<int64_t> sizes_;      // of the views, where accesses are reported
  std::vector<Operand> unsettled_;  // operands of the instruction that is observed
  Instr copy_;
  std::vector<Waiting> waiting_;
  Sequences::Node* sequence_ = nullptr;  // what waits
  RowQueue rows_;                        // and what else does
  int64_t block_ = 0, block_value_ = 0;
};

}  // namespace mco
