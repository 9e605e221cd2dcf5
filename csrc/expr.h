// SPDX-License-Identifier: Apache-2.0
// Scalar expressions: nodes as decoded, and the compiled form that is evaluated while a program runs.
#pragma once

#include <string>
#include <vector>

#include "base.h"

namespace mco {

// Numbers of codec.EXPR_OPS.
enum class ExprOp : uint8_t {
  Const,
  Var,
  Cast,
  Bitcast,
  Neg,
  Not,
  Invert,
  Abs,
  Sqrt,
  BitCount0,
  BitCount1,
  Clz,
  Add,
  Sub,
  Mul,
  Div,
  Mod,
  Shl,
  Shr,
  And,
  Or,
  Xor,
  Lt,
  Le,
  Gt,
  Ge,
  Eq,
  Ne,
  LogicalAnd,
  LogicalOr,
  Min,
  Max,
  kCount
};

constexpr uint32_t kNone = 0xFFFFFFFFu;

struct ExprNode {
  ExprOp op = ExprOp::Const;
  DType dtype = I32;
  uint32_t a = kNone, b = kNone;
  Value value{0};  // constant, or register number
};

// Registers of one block; `set` says which have a value.
struct Registers {
  std::vector<Value> value;
  std::vector<uint8_t> set;
};

// A root: a constant, `c + sum(coefficient * register)` in one integer dtype, or a run of steps; a Pair is one of two
// registers or constants and an operator.
struct Expr {
  enum class Form : uint8_t { Constant, Affine, Steps, Pair };
  Form form = Form::Constant;
  DType dtype = I32;
  Value c{0};
  uint32_t first = 0, count = 0;  // into terms or steps
};

struct Term {
  uint32_t reg;
  int64_t coefficient;
};

// One node of a Steps root. Operands are slots of earlier steps; `skip` steps follow that a false `and` (a true `or`)
// does not need.
struct ExprStep {
  ExprOp op;
  DType dtype;    // of the result
  DType operand;  // of a
  uint32_t a = 0, b = 0, skip = 0;
  Value value{0};
};

class ExprTable {
 public:
  std::vector<ExprNode> nodes;

  // Checks the nodes (arity, dtypes, register numbers); throws Error.
  void check(const std::vector<DType>& registers);
  // Compiles node `index` and returns the number of the root.
  uint32_t root(uint32_t index);
  void finish();  // drops what only compiling needs
  // A root that is no node: a constant that may change.
  uint32_t add_constant() {
    roots_.emplace_back();
    return uint32_t(roots_.size() - 1);
  }
  void set_constant(uint32_t root, DType dtype, Value value) {
    roots_[root].dtype = dtype;
    roots_[root].c = value;
  }

  const Expr& expr(uint32_t root) const { return roots_[root]; }
  DType dtype(uint32_t root) const { return roots_[root].dtype; }
  bool is_constant(uint32_t root) const { return roots_[root].form == Expr::Form::Constant; }

  // Throws EvalError.
  Value eval(uint32_t root, const Registers& registers) const {
    const Expr& e = roots_[root];
    return e.form == Expr::Form::Constant ? e.c : eval_slow(e, registers);
  }

 private:
  Value eval_slow(const Expr& e, const Registers& registers) const;
  Value run_steps(const Expr& e, const Registers& registers) const;
  Value run_pair(const Expr& e, const Registers& registers) const;
  bool is_pair(const Expr& e) const;
  bool affine(uint32_t node, int64_t factor, DType dtype, Expr& out, std::vector<Term>& terms, int depth) const;
  void compile_steps(uint32_t node, Expr& out);
  uint32_t emit(uint32_t node, uint32_t base);
  void measure(uint32_t node);
  void forget_slots(size_t from);

  struct Extent {
    uint16_t operators, depth;
  };

  std::vector<Expr> roots_;
  std::vector<Extent> extent_;     // of each node
  std::vector<uint32_t> root_of_;  // node -> root, kNone when not compiled
  std::vector<Term> terms_;
  std::vector<ExprStep> steps_;
  std::vector<uint32_t> slot_;     // node -> slot in the root that is being compiled
  std::vector<uint32_t> emitted_;  // nodes that have one
};

// An expression that has no value: the text lacks the location.
class EvalError : public Error {
 public:
  EvalError(const char* text, uint32_t reg) : Error(text), reg(reg) {}
  uint32_t reg;  // the register that was never set, or kNone
};

// `x op y` with operands of dtype t, the result of dtype `result`.
Value apply_unary(ExprOp op, Value x, DType t, DType result);
Value apply_binary(ExprOp op, Value x, Value y, DType t, DType result);

}  // namespace mco
