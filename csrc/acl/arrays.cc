// SPDX-License-Identifier: Apache-2.0
#include "arrays.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "../number.h"

namespace mco_acl {
namespace {

using Sizes = std::vector<int64_t>;

constexpr int64_t kMostElements = int64_t(1) << 48;

[[noreturn]] void unfit(const char* what) {
  refuse(ACLNN_ERR_INNER, "a plan whose step %s does not fit; accepted: ms-custom-ops cache clear, and the call again",
         what);
}

int64_t product(const Sizes& shape) {
  int64_t out = 1;
  for (const int64_t n : shape) {
    if (n < 0 || __builtin_mul_overflow(out, n, &out) || out > kMostElements) unfit("shape");
  }
  return out;
}

size_t axis_of(const Shaped& x, int64_t axis, const char* what) {
  const int64_t rank = int64_t(x.shape.size());
  const int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank) unfit(what);
  return size_t(at);
}

// Calls `row(offset of a, offset of b)` for every row along the last axis, in order.
template <class F>
void rows(const Sizes& shape, const Sizes& a, const Sizes& b, F row) {
  if (product(shape) == 0) return;
  const size_t outer = shape.empty() ? 0 : shape.size() - 1;
  Sizes at(outer, 0);
  int64_t in_a = 0, in_b = 0;
  while (true) {
    row(in_a, in_b);
    size_t i = outer;
    while (i > 0) {
      --i;
      in_a += a[i], in_b += b[i];
      if (++at[i] < shape[i]) break;
      in_a -= a[i] * shape[i], in_b -= b[i] * shape[i];
      at[i] = 0;
      if (i == 0) return;
    }
    if (outer == 0) return;
  }
}

template <class T>
void copy_row(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_step * int64_t(sizeof(T)), from + i * from_step * int64_t(sizeof(T)), sizeof(T));
  }
}

void move_row(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t count, size_t size) {
  if (to_step == 1 && from_step == 1) {
    std::memmove(to, from, size_t(count) * size);
  } else if (size == 1) {
    copy_row<uint8_t>(to, to_step, from, from_step, count);
  } else if (size == 2) {
    copy_row<uint16_t>(to, to_step, from, from_step, count);
  } else if (size == 4) {
    copy_row<uint32_t>(to, to_step, from, from_step, count);
  } else {
    copy_row<uint64_t>(to, to_step, from, from_step, count);
  }
}

void store(char* at, mco::DType dtype, double value) {
  if (mco::is_float(dtype)) {
    mco::store_float(at, mco::to_float_odd(value), dtype, false);
    if (dtype == mco::F32) {
      const float exact = float(value);
      std::memcpy(at, &exact, sizeof exact);
    }
  } else {
    const int64_t whole = int64_t(value);
    std::memcpy(at, &whole, mco::kSize[dtype]);
  }
}

// A fresh array of `dtype` whose values `convert(to, from)` makes one by one.
template <class F>
Shaped each(const Shaped& x, mco::DType dtype, F convert) {
  const Shaped out = fresh(dtype, x.shape);
  copied_bytes() += uint64_t(out.bytes());
  const int64_t in = mco::kSize[x.dtype], width = mco::kSize[dtype];
  const int64_t count = x.shape.empty() ? 1 : x.shape.back(), step = x.strides.empty() ? 1 : x.strides.back();
  rows(x.shape, out.strides, x.strides, [&](int64_t to, int64_t from) {
    for (int64_t i = 0; i < count; ++i) convert(out.data + (to + i) * width, x.data + (from + i * step) * in);
  });
  return out;
}

Shaped cast(const Shaped& x, mco::DType dtype) {
  if (mco::is_float(x.dtype) && mco::is_float(dtype)) {
    return each(x, dtype, [&](char* to, const char* from) {
      mco::store_float(to, mco::load_float(from, x.dtype), dtype, false);
    });
  }
  if (mco::is_float(x.dtype)) unfit("cast");
  if (mco::is_float(dtype)) {
    return each(x, dtype, [&](char* to, const char* from) {
      mco::store_float(to, float(mco::load_int(from, x.dtype)), dtype, false);
    });
  }
  return each(x, dtype, [&](char* to, const char* from) {
    const int64_t value = mco::wrap_int(mco::load_int(from, x.dtype), dtype);
    std::memcpy(to, &value, mco::kSize[dtype]);
  });
}

Shaped pad(const Shaped& x, const Step& step) {
  const size_t axis = axis_of(x, step.numbers[0], "pad");
  Sizes shape = x.shape;
  if (step.numbers[1] < 0 || step.numbers[1] > kMostElements) unfit("pad");
  shape[axis] += step.numbers[1];
  const Shaped out = fresh(x.dtype, shape);
  Shaped inner = out, outer = out;
  inner.shape = x.shape;
  assign(inner, x);
  outer.shape[axis] = step.numbers[1];
  outer.data += x.shape[axis] * out.strides[axis] * mco::kSize[x.dtype];
  char value[8] = {};
  store(value, x.dtype, step.value);
  Shaped one;
  one.data = value, one.dtype = x.dtype, one.shape = outer.shape, one.strides = Sizes(outer.shape.size(), 0);
  assign(outer, one);
  return out;
}

Shaped taken(const Shaped& x, const Step& step, const Shaped& index) {
  const size_t axis = axis_of(x, step.numbers[0], "take");
  if (index.dtype != mco::I32 || index.shape.size() != 1) unfit("take");
  Sizes shape = x.shape;
  shape[axis] = index.shape[0];
  const Shaped out = fresh(x.dtype, shape);
  Shaped to = out, from = x;
  to.shape[axis] = from.shape[axis] = 1;
  for (int64_t i = 0; i < index.shape[0]; ++i) {
    const int64_t at = reinterpret_cast<const int32_t*>(index.data)[i];
    if (at < 0 || at >= x.shape[axis]) unfit("take");
    to.data = out.data + i * out.strides[axis] * mco::kSize[x.dtype];
    from.data = x.data + at * x.strides[axis] * mco::kSize[x.dtype];
    assign(to, from);
  }
  return out;
}

Shaped kept(const Shaped& x, const Step& step, const Shaped& mask) {
  const size_t axis = axis_of(x, step.numbers[0], "keep");
  if (mask.dtype != mco::BOOL || mask.shape.size() != 1 || mask.shape[0] != x.shape[axis]) unfit("keep");
  const Shaped out = zeros(x.dtype, x.shape);
  Shaped to = out, from = x;
  to.shape[axis] = from.shape[axis] = 1;
  for (int64_t i = 0; i < mask.shape[0]; ++i) {
    if (!mask.data[i]) continue;
    to.data = out.data + i * out.strides[axis] * mco::kSize[x.dtype];
    from.data = x.data + i * x.strides[axis] * mco::kSize[x.dtype];
    assign(to, from);
  }
  return out;
}

Shaped repeated(const Shaped& x, const Step& step) {
  if (x.shape.size() != 1 || x.shape[0] == 0 || step.numbers[0] < 0) unfit("repeat");
  const Shaped out = fresh(x.dtype, {x.shape[0] + step.numbers[0]});
  const int64_t size = mco::kSize[x.dtype];
  Shaped front = out, rest = out, last = x;
  front.shape = x.shape;
  assign(front, x);
  rest.shape = {step.numbers[0]};
  rest.data += x.shape[0] * size;
  last.shape = rest.shape, last.strides = {0};
  last.data += (x.shape[0] - 1) * x.strides[0] * size;
  assign(rest, last);
  return out;
}

Shaped bits(const Shaped& x) {
  if (x.dtype != mco::U8 || x.shape.empty()) unfit("bits");
  const Shaped whole = packed(x);
  Sizes shape = x.shape;
  shape.back() *= 8;
  const Shaped out = fresh(mco::U8, shape);
  const int64_t count = whole.elements();
  for (int64_t i = 0; i < count; ++i) {
    for (int bit = 0; bit < 8; ++bit) out.data[i * 8 + bit] = char(uint8_t(whole.data[i]) >> bit & 1);
  }
  return out;
}

Shaped summed(const Shaped& x) {
  if (x.dtype != mco::F32) unfit("sum");
  const Shaped whole = packed(x), out = fresh(mco::F32, {1});
  double total = 0;
  for (int64_t i = 0; i < whole.elements(); ++i) total += mco::load_float(whole.data + i * 4, mco::F32);
  store(out.data, mco::F32, total);
  return out;
}

Shaped broadcast(Shaped x, const Sizes& shape) {
  if (shape.size() < x.shape.size()) unfit("broadcast");
  const size_t front = shape.size() - x.shape.size();
  Sizes strides(shape.size(), 0);
  for (size_t i = front; i < shape.size(); ++i) {
    const int64_t have = x.shape[i - front];
    if (have != shape[i] && have != 1) unfit("broadcast");
    strides[i] = have == 1 ? 0 : x.strides[i - front];
  }
  product(shape);
  x.shape = shape, x.strides = strides;
  return x;
}

Shaped transposed(Shaped x, const Sizes& order) {
  Sizes shape, strides, seen = order;
  std::sort(seen.begin(), seen.end());
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] != int64_t(i)) unfit("transpose");
  }
  if (order.size() != x.shape.size()) unfit("transpose");
  for (const int64_t axis : order) shape.push_back(x.shape[size_t(axis)]), strides.push_back(x.strides[size_t(axis)]);
  x.shape = shape, x.strides = strides;
  return x;
}

Shaped narrowed(Shaped x, size_t axis, int64_t count, const char* what) {
  if (count < 0 || count > x.shape[axis]) unfit(what);
  x.shape[axis] = count;
  return x;
}

}  // namespace

int64_t Shaped::elements() const { return product(shape); }

bool Shaped::contiguous() const {
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] > 1 && strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

uint64_t& copied_bytes() {
  thread_local uint64_t count = 0;
  return count;
}

Sizes row_strides(const Sizes& shape) {
  Sizes strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) strides[i] = step, step *= std::max<int64_t>(shape[i], 1);
  return strides;
}

Shaped fresh(mco::DType dtype, const Sizes& shape) {
  Shaped out;
  out.dtype = dtype, out.shape = shape, out.strides = row_strides(shape);
  const size_t bytes = size_t(std::max<int64_t>(product(shape) * mco::kSize[dtype], 1));
  out.owner = std::shared_ptr<void>(std::malloc(bytes), std::free);
  if (!out.owner) throw std::bad_alloc();
  out.data = static_cast<char*>(out.owner.get());
  return out;
}

Shaped zeros(mco::DType dtype, const Sizes& shape) {
  Shaped out = fresh(dtype, shape);
  std::memset(out.data, 0, size_t(out.bytes()));
  return out;
}

void assign(const Shaped& to, const Shaped& from) {
  if (to.shape != from.shape || to.dtype != from.dtype) unfit("assign");
  const size_t size = mco::kSize[to.dtype];
  const int64_t count = to.shape.empty() ? 1 : to.shape.back();
  const int64_t a = to.strides.empty() ? 1 : to.strides.back(), b = from.strides.empty() ? 1 : from.strides.back();
  copied_bytes() += uint64_t(to.bytes());
  rows(to.shape, to.strides, from.strides, [&](int64_t in_to, int64_t in_from) {
    move_row(to.data + in_to * int64_t(size), a, from.data + in_from * int64_t(size), b, count, size);
  });
}

Shaped packed(const Shaped& x) {
  if (x.contiguous()) return x;
  const Shaped out = fresh(x.dtype, x.shape);
  assign(out, x);
  return out;
}

Shaped detached(const Shaped& x) {
  const Shaped out = fresh(x.dtype, x.shape);
  assign(out, x);
  return out;
}

Shaped apply(const Shaped& x, const Step& step, const std::vector<Shaped>& constants) {
  const Sizes& n = step.numbers;
  const auto constant = [&]() -> const Shaped& {
    if (step.constant < 0 || size_t(step.constant) >= constants.size()) unfit("constant");
    return constants[size_t(step.constant)];
  };
  Shaped y = x;
  switch (step.kind) {
    case StepKind::kPad:
      return pad(x, step);
    case StepKind::kCut:
      return narrowed(y, axis_of(x, n[0], "cut"), n[1], "cut");
    case StepKind::kCast:
      return cast(x, step.dtype);
    case StepKind::kFlags:
      return each(x, mco::F16, [&](char* to, const char* from) {
        const bool on =
            mco::is_float(x.dtype) ? mco::load_float(from, x.dtype) != 0 : mco::load_int(from, x.dtype) != 0;
        mco::store_float(to, on ? 1.0f : 0.0f, mco::F16, false);
      });
    case StepKind::kReshape:
      if (product(n) != x.elements()) unfit("reshape");
      y = packed(x);
      y.shape = n, y.strides = row_strides(n);
      return y;
    case StepKind::kBroadcast:
      return broadcast(y, n);
    case StepKind::kRepeat:
      return repeated(x, step);
    case StepKind::kCorner:
      return narrowed(narrowed(y, axis_of(x, -2, "corner"), n[0], "corner"), axis_of(x, -1, "corner"), n[1], "corner");
    case StepKind::kSwap: {
      axis_of(x, 1, "swap");
      std::swap(y.shape[0], y.shape[1]), std::swap(y.strides[0], y.strides[1]);
      return y;
    }
    case StepKind::kBatch:
      y.shape.insert(y.shape.begin(), 1), y.strides.insert(y.strides.begin(), 0);
      return y;
    case StepKind::kUnbatch:
      if (x.shape.empty() || x.shape[0] != 1) unfit("unbatch");
      y.shape.erase(y.shape.begin()), y.strides.erase(y.strides.begin());
      return y;
    case StepKind::kTake:
      return taken(x, step, constant());
    case StepKind::kKeep:
      return kept(x, step, constant());
    case StepKind::kSum:
      return summed(x);
    case StepKind::kTranspose:
      return transposed(y, n);
    case StepKind::kBits:
      return bits(x);
    case StepKind::kTile:
      if (n[0] < 0) unfit("tile");
      y.shape.push_back(n[0]), y.strides.push_back(0);
      return y;
    case StepKind::kFirst:
      if (x.shape.empty() || x.shape.back() < 1) unfit("first");
      y.shape.pop_back(), y.strides.pop_back();
      return y;
  }
  unfit("kind");
}

}  // namespace mco_acl
