// SPDX-License-Identifier: Apache-2.0
// Arithmetic of the scalar unit, one operator at a time (ms_custom_ops/program/expr.py).
#include <cmath>

#include "expr.h"
#include "number.h"

namespace mco {

namespace {

uint64_t pattern(int64_t x, DType t) {
  const int bits = kSize[t] * 8;
  return bits == 64 ? uint64_t(x) : uint64_t(x) & ((uint64_t(1) << bits) - 1);
}

int64_t integer_root(int64_t x, DType t) {
  if (t != U64 && x < 0) throw EvalError("sqrt of a negative integer; accepted: 0 or more", kNone);
  const uint64_t v = uint64_t(x);
  uint64_t r = uint64_t(std::sqrt(double(v)));
  if (r > 0xFFFFFFFFu) r = 0xFFFFFFFFu;
  while (r * r > v) --r;
  while (r < 0xFFFFFFFFu && (r + 1) * (r + 1) <= v) ++r;
  return int64_t(r);
}

bool compare(ExprOp op, bool less, bool equal, bool greater) {
  switch (op) {
    case ExprOp::Lt:
      return less;
    case ExprOp::Le:
      return less || equal;
    case ExprOp::Gt:
      return greater;
    case ExprOp::Ge:
      return greater || equal;
    case ExprOp::Eq:
      return equal;
    default:
      return !equal;
  }
}

Value float_binary(ExprOp op, double x, double y, DType result) {
  Value v;
  if (op >= ExprOp::Lt && op <= ExprOp::Ne) {
    v.i = compare(op, x<y, x == y, x> y);
    return v;
  }
  double d;
  switch (op) {
    case ExprOp::Add:
      d = x + y;
      break;
    case ExprOp::Sub:
      d = x - y;
      break;
    case ExprOp::Mul:
      d = x * y;
      break;
    case ExprOp::Div:
      d = x / y;
      break;
    case ExprOp::Mod:
      d = std::fmod(x, y);
      break;
    case ExprOp::Min:
      d = y < x ? y : x;
      break;
    default:
      d = y > x ? y : x;
      break;
  }
  v.f = round_to_dtype(d, result);
  return v;
}

int64_t divide(ExprOp op, int64_t x, int64_t y, DType t) {
  if (y == 0) {
    throw EvalError(
        op == ExprOp::Div ? "integer division by zero in operator /" : "integer division by zero in operator %", kNone);
  }
  if (t == U64) {
    const uint64_t q = uint64_t(x) / uint64_t(y);
    return int64_t(op == ExprOp::Div ? q : uint64_t(x) - q * uint64_t(y));
  }
  if (y == -1) return op == ExprOp::Div ? int64_t(0 - uint64_t(x)) : 0;
  return op == ExprOp::Div ? x / y : x % y;
}

int64_t integer_binary(ExprOp op, int64_t x, int64_t y, DType t) {
  const uint64_t ux = uint64_t(x), uy = uint64_t(y);
  const bool less = t == U64 ? ux < uy : x < y, greater = t == U64 ? ux > uy : x > y;
  const int shift = int(uy & uint64_t(kSize[t] * 8 - 1));
  switch (op) {
    case ExprOp::Add:
      return int64_t(ux + uy);
    case ExprOp::Sub:
      return int64_t(ux - uy);
    case ExprOp::Mul:
      return int64_t(ux * uy);
    case ExprOp::Div:
    case ExprOp::Mod:
      return divide(op, x, y, t);
    case ExprOp::Shl:
      return int64_t(ux << shift);
    case ExprOp::Shr:
      return t == U64 ? int64_t(ux >> shift) : x >> shift;
    case ExprOp::And:
      return x & y;
    case ExprOp::Or:
      return x | y;
    case ExprOp::Xor:
      return x ^ y;
    case ExprOp::Min:
      return less ? x : y;
    case ExprOp::Max:
      return greater ? x : y;
    default:
      return compare(op, less, x == y, greater);
  }
}

}  // namespace

Value apply_binary(ExprOp op, Value x, Value y, DType t, DType result) {
  if (is_float(t)) return float_binary(op, x.f, y.f, result);
  Value v;
  v.i = wrap_int(integer_binary(op, x.i, y.i, t), result);
  return v;
}

Value apply_unary(ExprOp op, Value x, DType t, DType result) {
  Value v;
  if (op == ExprOp::Cast) return convert_value(x, t, result);
  if (op == ExprOp::Bitcast) {
    uint8_t raw[8] = {};
    value_to_bits(x, t, raw);
    return value_from_bits(raw, result);
  }
  if (op == ExprOp::Not) {
    v.i = is_float(t) ? x.f == 0 : x.i == 0;
    return v;
  }
  if (is_float(t)) {
    v.f = round_to_dtype(op == ExprOp::Neg ? -x.f : op == ExprOp::Abs ? std::fabs(x.f) : std::sqrt(x.f), result);
    return v;
  }
  const int bits = kSize[t] * 8;
  const uint64_t p = pattern(x.i, t);
  int64_t r;
  switch (op) {
    case ExprOp::Neg:
      r = int64_t(0 - uint64_t(x.i));
      break;
    case ExprOp::Abs:
      r = t != U64 && x.i < 0 ? int64_t(0 - uint64_t(x.i)) : x.i;
      break;
    case ExprOp::Invert:
      r = ~x.i;
      break;
    case ExprOp::Sqrt:
      r = integer_root(x.i, t);
      break;
    case ExprOp::BitCount0:
      r = bits - __builtin_popcountll(p);
      break;
    case ExprOp::BitCount1:
      r = __builtin_popcountll(p);
      break;
    default:
      r = p == 0 ? bits : __builtin_clzll(p) - (64 - bits);
      break;
  }
  v.i = wrap_int(r, result);
  return v;
}

}  // namespace mco
