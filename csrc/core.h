// SPDX-License-Identifier: Apache-2.0
// A core outside of any stream: executes one instruction at a time, for front ends that run a kernel while they read
// it. The same checks, handlers and observers as in a walk.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "access.h"
#include "machine.h"

namespace mco {

// Memory known by its address, for front ends that place their tensors themselves. What `name` refers to outlives the
// instruction.
struct MemorySpan {
  uint8_t* base = nullptr;
  int64_t bytes = 0;
  int64_t address = 0;  // of its first byte in an on-chip memory
  Name name;
  Scope scope = GM;
  uint32_t number = kNone;  // of the buffer in the program that the core follows
};

// An instruction on such memory, with its arguments and attributes in the order of its row.
struct DirectOperand {
  MemorySpan memory;
  int64_t offset = 0;  // bytes into it, a multiple of the element size
  DType dtype = F16;
};
struct Direct {
  const OpInfo* op = nullptr;
  const DirectOperand* operands = nullptr;
  const Value* args = nullptr;
  const int64_t* attrs = nullptr;
  uint32_t floats = 0;  // bit i: argument i is a float32
  const char* file = "";
  uint32_t line = 0;
  uint32_t loc = 0;  // in the program that the core follows
};

// What the instructions of one form share (core_direct.cc). Its place stays; other forms may take it.
struct DirectForm;
struct FormHead {
  uint32_t serial = 0;  // how many forms have been here
  uint32_t loose = 0;   // bits of the arguments that each call brings
};
// A form of instructions, and which of those that its place has had; it is read with the rest of what a call remembers.
struct KnownForm {
  DirectForm* form = nullptr;
  FormHead* head = nullptr;  // of the form
  uint32_t serial = 0;
};
// Whether an argument is no part of the form: each call brings its own.
inline bool is_loose(const OpInfo& op, size_t argument) {
  return !op.shape.operands || op.args[argument].kind == ArgKind::Value;
}

class Core {
 public:
  // An operand: `offset` elements of `dtype` into a buffer.
  struct Place {
    uint32_t buffer = 0;
    DType dtype = F16;
    int64_t offset = 0;
  };
  // An argument: a value, or what register `reg` holds.
  struct Argument {
    DType dtype = I64;
    Value value{0};
    uint32_t reg = kNone;
  };

  // On-chip memory of these sizes, filled with kPoison: what no instruction has written reads as NaN, or as -1 or the
  // largest integer. `saturate`: of 16-bit floats. The observer, if any, outlives the core.
  // `concurrent`: other cores add to the same tensors in GM, their adds land as they come; `alone`: on this thread.
  Core(const int64_t (&scope_bytes)[kScopes], bool saturate, Observer* observer, bool concurrent = false,
       bool alone = false);
  // Observed by what `make` makes of its program.
  using MakeObserver = std::function<std::unique_ptr<Observer>(const Program&)>;
  Core(const int64_t (&scope_bytes)[kScopes], bool saturate, const MakeObserver& make, bool split);
  static constexpr int kPoison = 0xFF;

  // Numbers of new buffers: of the caller's memory as a tensor in GM, or of bytes of an on-chip memory. Buffers may
  // share bytes. Throws Error where a scope is too small.
  uint32_t add_tensor(const std::string& name, DType dtype, void* data, int64_t bytes);
  uint32_t add_buffer(const std::string& name, Scope scope, DType dtype, int64_t address, int64_t bytes);
  View memory(uint32_t buffer) const;

  uint32_t add_register(const std::string& name, DType dtype);
  // The integer or the float, whichever the dtype of the register is, rounded to it.
  void set_register(uint32_t reg, int64_t i, double f);

  // The bytes that an operand of such an instruction is touched on, without executing it.
  Touched access(const std::string& row, const std::vector<Place>& operands, const std::vector<Argument>& arguments,
                 const std::vector<int64_t>& attributes, int operand);
  // Executes one instruction of the table; operands, arguments and attributes in the order of its row. `file` and
  // `line` are of the statement in the user's kernel. Throws Error as a walk does; what the instruction had written
  // before it failed stays written.
  void issue(const std::string& row, const std::vector<Place>& operands, const std::vector<Argument>& arguments,
             const std::vector<int64_t>& attributes, const std::string& file, uint32_t line);
  // The same without names and vectors; the core keeps what it learned about instructions of the same form, and says
  // where. The caller has set the floating-point rules (fpenv.h).
  void issue(const Direct& d, KnownForm& known);
  // Whether a form is still there.
  static bool knows(const KnownForm& known) { return known.head && known.head->serial == known.serial; }
  // Brings a form near that is about to be used.
  void foresee(const KnownForm& known) const;
  // The same of an instruction of a form that the core knows, of which only `operands` (of the same dtypes and scopes),
  // place and loose arguments are looked at; not of an observed core.
  void issue_again(const Direct& d, const KnownForm& known);

  // Direct operands and places have numbers of this program, which may grow, from now on. It outlives the core.
  void follow(const Program& directory) { directory_ = &directory; }
  void catch_up();  // with the program it follows

  Machine& machine() { return *machine_; }
  Observer* observer() const { return observer_; }
  bool observed() const { return observer_ != nullptr; }
  // Modes and poison of a core that starts; of each memory the first `touched` bytes, null: all.
  void reset(int64_t number = 0, const int64_t* touched = nullptr);

 private:
  Instr make(const std::string& row, const std::vector<Place>& operands, const std::vector<Argument>& arguments,
             const std::vector<int64_t>& attributes);
  void start(const int64_t (&scope_bytes)[kScopes], bool saturate, bool concurrent, bool alone);
  struct DropForm {
    void operator()(DirectForm* form) const;
  };
  void place(DirectForm& form, const Direct& d);
  void make_form(DirectForm& form, const Direct& d);
  DirectForm& form_of(const Direct& d, KnownForm& known);
  void add_slots();
  uint32_t add(const std::string& name, Buffer buffer, View view);
  uint32_t constant(size_t slot, DType dtype, Value value);
  Value value_of(const Argument& a) const;

  std::deque<std::string> names_;
  std::string file_;
  Program program_;  // the tables that handlers look into; its stream is the step that is executed
  BlockOrder order_{1, true};
  Watch watch_{0, nullptr};
  std::unique_ptr<Observer> own_;
  Observer* const observer_;
  const Program* directory_ = nullptr;
  Registers registers_;
  std::vector<Operand> operands_;
  std::vector<uint32_t> arguments_, constants_;  // roots
  std::vector<int64_t> attributes_;
  std::unique_ptr<Machine> machine_;
  std::vector<uint32_t> slot_buffers_, slot_offsets_;  // of direct operands by their number; offsets are roots
  std::vector<std::unique_ptr<DirectForm, DropForm>> forms_;
};

}  // namespace mco
