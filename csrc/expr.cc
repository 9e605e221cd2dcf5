// SPDX-License-Identifier: Apache-2.0
#include "expr.h"

#include <algorithm>

#include "limits.inc"
#include "number.h"

namespace mco {

namespace {

// Of a program: as many per node of its table, so that a small file does not take much memory.
constexpr size_t kMaxStepsPerNode = 32, kFewSteps = 1u << 16;
constexpr int kMaxAffineDepth = 10;
constexpr size_t kMaxTerms = 8;

bool is_unary(ExprOp op) { return op >= ExprOp::Neg && op <= ExprOp::Clz; }
bool is_logical(ExprOp op) { return op == ExprOp::LogicalAnd || op == ExprOp::LogicalOr; }
bool is_compare(ExprOp op) { return op >= ExprOp::Lt && op <= ExprOp::Ne; }
bool needs_integer(ExprOp op) {
  return op == ExprOp::Invert || (op >= ExprOp::BitCount0 && op <= ExprOp::Clz) ||
         (op >= ExprOp::Shl && op <= ExprOp::Xor);
}

}  // namespace

void ExprTable::check(const std::vector<DType>& registers) {
  extent_.resize(nodes.size());
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    const ExprNode& n = nodes[i];
    auto bad = [&](const char* what) { fail("program bytes: expression %u: %s", i, what); };
    const bool leaf = n.op == ExprOp::Const || n.op == ExprOp::Var;
    const bool one = n.op == ExprOp::Cast || n.op == ExprOp::Bitcast || is_unary(n.op);
    if ((n.a == kNone) != leaf || (n.b == kNone) != (leaf || one)) bad("wrong number of operands");
    if ((n.a != kNone && n.a >= i) || (n.b != kNone && n.b >= i)) bad("an operand that does not come before it");
    if (n.op == ExprOp::Var) {
      if (uint64_t(n.value.i) >= registers.size()) bad("an unknown register");
      if (registers[size_t(n.value.i)] != n.dtype) bad("a dtype that is not its register's");
    }
    measure(i);
    if (leaf) continue;
    const DType t = nodes[n.a].dtype;
    if (needs_integer(n.op) && is_float(t)) bad("an integer operator on a float");
    if (n.op == ExprOp::Bitcast && kSize[t] != kSize[n.dtype]) bad("a bitcast between widths");
    if (n.op == ExprOp::Not && n.dtype != BOOL) bad("a logical result that is not bool");
    if (is_unary(n.op) && n.op != ExprOp::Not && t != n.dtype) bad("a result of another dtype than its operand");
    if (one) continue;
    if (nodes[n.b].dtype != t) bad("operands of two dtypes");
    const bool truth = is_compare(n.op) || is_logical(n.op);
    if (n.dtype != (truth ? BOOL : t)) bad("a result of another dtype than its operands");
    if (is_logical(n.op) && t != BOOL) bad("logical operands that are not bool");
  }
}

// Operators as they are written out, and nesting; both stop where a limit is passed.
void ExprTable::measure(uint32_t i) {
  const ExprNode& n = nodes[i];
  Extent e{1, 1};
  for (const uint32_t operand : {n.a, n.b}) {
    if (operand == kNone) continue;
    e.operators =
        uint16_t(std::min<int64_t>(e.operators + extent_[operand].operators, limits::kExpressionOperators + 1));
    e.depth = uint16_t(std::max<int>(e.depth, std::min<int>(extent_[operand].depth, limits::kExpressionDepth) + 1));
  }
  extent_[i] = e;
}

uint32_t ExprTable::root(uint32_t index) {
  if (extent_[index].operators > limits::kExpressionOperators) {
    fail("program bytes: an expression has more than %lld operators", (long long)limits::kExpressionOperators);
  }
  if (extent_[index].depth > limits::kExpressionDepth) {
    fail("program bytes: an expression is nested deeper than %lld", (long long)limits::kExpressionDepth);
  }
  if (root_of_.empty()) root_of_.assign(nodes.size(), kNone);
  if (root_of_[index] != kNone) return root_of_[index];
  const ExprNode& n = nodes[index];
  Expr e;
  e.dtype = n.dtype;
  std::vector<Term> terms;
  if (n.op == ExprOp::Const) {
    e.c = n.value;
  } else if (!is_float(n.dtype) && n.dtype != BOOL && affine(index, 1, n.dtype, e, terms, 0)) {
    e.c.i = wrap_int(e.c.i, e.dtype);
    if (!terms.empty()) e.form = Expr::Form::Affine;
    e.first = uint32_t(terms_.size());
    e.count = uint32_t(terms.size());
    terms_.insert(terms_.end(), terms.begin(), terms.end());
  } else {
    e.c.i = 0;
    compile_steps(index, e);
  }
  roots_.push_back(e);
  return root_of_[index] = uint32_t(roots_.size() - 1);
}

void ExprTable::finish() {
  std::vector<ExprNode>().swap(nodes);
  std::vector<uint32_t>().swap(root_of_);
  std::vector<uint32_t>().swap(slot_);
}

// Sums, differences and products with constants are exact modulo 2**64 and so modulo the width of their dtype: they
// need one wrap, at the end.
bool ExprTable::affine(uint32_t node, int64_t factor, DType dtype, Expr& out, std::vector<Term>& terms,
                       int depth) const {
  const ExprNode& n = nodes[node];
  if (depth > kMaxAffineDepth || terms.size() > kMaxTerms) return false;
  auto times = [](int64_t x, int64_t y) { return int64_t(uint64_t(x) * uint64_t(y)); };
  auto add_term = [&](uint32_t reg) {
    for (Term& t : terms) {
      if (t.reg == reg) {
        t.coefficient = int64_t(uint64_t(t.coefficient) + uint64_t(factor));
        return true;
      }
    }
    terms.push_back({reg, factor});
    return true;
  };
  if (n.op == ExprOp::Cast) {
    const ExprNode& v = nodes[n.a];
    return v.op == ExprOp::Var && !is_float(v.dtype) && n.dtype == dtype && add_term(uint32_t(v.value.i));
  }
  if (n.dtype != dtype) return false;
  switch (n.op) {
    case ExprOp::Const:
      out.c.i = int64_t(uint64_t(out.c.i) + uint64_t(times(n.value.i, factor)));
      return true;
    case ExprOp::Var:
      return add_term(uint32_t(n.value.i));
    case ExprOp::Neg:
      return affine(n.a, times(factor, -1), dtype, out, terms, depth + 1);
    case ExprOp::Add:
    case ExprOp::Sub:
      return affine(n.a, factor, dtype, out, terms, depth + 1) &&
             affine(n.b, n.op == ExprOp::Sub ? times(factor, -1) : factor, dtype, out, terms, depth + 1);
    case ExprOp::Mul:
      if (nodes[n.b].op == ExprOp::Const)
        return affine(n.a, times(factor, nodes[n.b].value.i), dtype, out, terms, depth + 1);
      if (nodes[n.a].op == ExprOp::Const)
        return affine(n.b, times(factor, nodes[n.a].value.i), dtype, out, terms, depth + 1);
      return false;
    default:
      return false;
  }
}

void ExprTable::compile_steps(uint32_t node, Expr& out) {
  const uint32_t base = uint32_t(steps_.size());
  slot_.resize(nodes.size(), kNone);
  emit(node, base);
  forget_slots(0);
  out.form = Expr::Form::Steps;
  out.first = base;
  out.count = uint32_t(steps_.size()) - base;
  for (uint32_t i = base; i < steps_.size(); ++i) {
    if (steps_[i].op != ExprOp::Var) continue;
    if (is_pair(out)) out.form = Expr::Form::Pair;
    return;
  }
  try {
    out.c = run_steps(out, Registers());
    out.form = Expr::Form::Constant;
    steps_.resize(base);
  } catch (const EvalError&) {
    // A constant division by zero is an error of the statement that runs it, if it ever runs.
  }
}

void ExprTable::forget_slots(size_t from) {
  for (size_t i = from; i < emitted_.size(); ++i) slot_[emitted_[i]] = kNone;
  emitted_.resize(from);
}

uint32_t ExprTable::emit(uint32_t node, uint32_t base) {
  if (slot_[node] != kNone) return slot_[node];
  const size_t most = kFewSteps + kMaxStepsPerNode * nodes.size();
  if (steps_.size() >= most) fail("program bytes: %zu expressions have more than %zu operators", nodes.size(), most);
  const ExprNode n = nodes[node];
  ExprStep s{n.op, n.dtype, n.dtype, 0, 0, 0, n.value};
  if (n.a != kNone) {
    s.operand = nodes[n.a].dtype;
    s.a = emit(n.a, base);
  }
  if (is_logical(n.op)) {
    // Steps of the right side may be skipped: nothing after them may count on their values.
    const size_t before = emitted_.size();
    const uint32_t guard = uint32_t(steps_.size());
    steps_.push_back(s);
    s.b = emit(n.b, base);
    steps_[guard].skip = uint32_t(steps_.size()) - guard;
    steps_[guard].b = uint32_t(steps_.size()) - base;
    forget_slots(before);
  } else if (n.b != kNone) {
    s.b = emit(n.b, base);
  }
  s.skip = 0;
  steps_.push_back(s);
  emitted_.push_back(node);
  return slot_[node] = uint32_t(steps_.size() - 1 - base);
}

bool ExprTable::is_pair(const Expr& e) const {
  if (e.count != 3) return false;
  const ExprStep* s = steps_.data() + e.first;
  const auto leaf = [](const ExprStep& x) { return x.op == ExprOp::Const || x.op == ExprOp::Var; };
  return leaf(s[0]) && leaf(s[1]) && !leaf(s[2]) && s[2].op > ExprOp::Clz && !is_logical(s[2].op);
}

Value ExprTable::run_pair(const Expr& e, const Registers& registers) const {
  const ExprStep* s = steps_.data() + e.first;
  Value slot[2];
  for (int i = 0; i < 2; ++i) {
    slot[i] = s[i].value;
    if (s[i].op != ExprOp::Var) continue;
    const size_t reg = size_t(s[i].value.i);
    if (!registers.set[reg]) throw EvalError("", uint32_t(reg));
    slot[i] = registers.value[reg];
  }
  return apply_binary(s[2].op, slot[s[2].a], slot[s[2].b], s[2].operand, s[2].dtype);
}

Value ExprTable::eval_slow(const Expr& e, const Registers& registers) const {
  if (e.form == Expr::Form::Pair) return run_pair(e, registers);
  if (e.form == Expr::Form::Steps) return run_steps(e, registers);
  uint64_t sum = uint64_t(e.c.i);
  const Term* t = terms_.data() + e.first;
  for (uint32_t i = 0; i < e.count; ++i) {
    if (!registers.set[t[i].reg]) throw EvalError("", t[i].reg);
    sum += uint64_t(t[i].coefficient) * uint64_t(registers.value[t[i].reg].i);
  }
  Value v;
  v.i = wrap_int(int64_t(sum), e.dtype);
  return v;
}

Value ExprTable::run_steps(const Expr& e, const Registers& registers) const {
  constexpr uint32_t kOnStack = 64;
  Value small[kOnStack];
  std::vector<Value> large;
  Value* slot = small;
  if (e.count > kOnStack) {
    large.resize(e.count);
    slot = large.data();
  }
  const ExprStep* steps = steps_.data() + e.first;
  for (uint32_t i = 0; i < e.count; ++i) {
    const ExprStep& s = steps[i];
    switch (s.op) {
      case ExprOp::Const:
        slot[i] = s.value;
        break;
      case ExprOp::Var:
        if (!registers.set[size_t(s.value.i)]) throw EvalError("", uint32_t(s.value.i));
        slot[i] = registers.value[size_t(s.value.i)];
        break;
      case ExprOp::LogicalAnd:
      case ExprOp::LogicalOr: {
        const bool x = slot[s.a].i != 0;
        if (s.skip) {  // the guard before the right side; its b is the slot of the result
          if (x == (s.op == ExprOp::LogicalOr)) {
            slot[s.b].i = x;
            i += s.skip;
          }
        } else {
          slot[i].i = slot[s.b].i != 0;
        }
        break;
      }
      default:
        slot[i] = s.op <= ExprOp::Clz ? apply_unary(s.op, slot[s.a], s.operand, s.dtype)
                                      : apply_binary(s.op, slot[s.a], slot[s.b], s.operand, s.dtype);
    }
  }
  return slot[e.count - 1];
}

}  // namespace mco
