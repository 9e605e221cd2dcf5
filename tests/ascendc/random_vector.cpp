// SPDX-License-Identifier: Apache-2.0
// Executes vector calls that stand as 20 words each in GM, on 48 KiB of UB.
#include "kernel_operator.h"
using namespace AscendC;

enum Word { kOp, kType, kDst, kSrc0, kSrc1, kForm, kCount, kRepeat, kDstBlk, kSrc0Blk, kSrc1Blk, kDstRep, kSrc0Rep,
            kSrc1Rep, kScalar, kExtra, kLow0, kLow1, kHigh0, kHigh1, kWords };
constexpr uint32_t kBytes = 48 * 1024;

struct Call {
  const int32_t* w;
  LocalTensor<uint8_t> memory;
  uint64_t mask[2];

  template <class T>
  LocalTensor<T> tensor(int word) const { return memory[uint32_t(w[word]) * 32].ReinterpretCast<T>(); }
  template <class T>
  T scalar() const {
    if constexpr (std::is_integral<T>::value) return T(w[kScalar]);
    float value;
    __builtin_memcpy(&value, &w[kScalar], 4);
    return T(value);
  }
  BinaryRepeatParams binary() const {
    return {uint8_t(w[kDstBlk]), uint8_t(w[kSrc0Blk]), uint8_t(w[kSrc1Blk]), uint8_t(w[kDstRep]), uint8_t(w[kSrc0Rep]),
            uint8_t(w[kSrc1Rep])};
  }
  UnaryRepeatParams unary() const {
    return {uint16_t(w[kDstBlk]), uint16_t(w[kSrc0Blk]), uint8_t(w[kDstRep]), uint8_t(w[kSrc0Rep])};
  }
};

// The three forms: a count, a number of lanes, bits of lanes.
#define FORMS(NAME, PARAMS, ...)                                                              \
  if (c.w[kForm] == 0) NAME(__VA_ARGS__, c.w[kCount]);                                        \
  else if (c.w[kForm] == 1) NAME(__VA_ARGS__, uint64_t(c.w[kCount]), uint8_t(c.w[kRepeat]), PARAMS); \
  else NAME(__VA_ARGS__, c.mask, uint8_t(c.w[kRepeat]), PARAMS)

template <class T>
__aicore__ inline void arithmetic(const Call& c) {
  const auto d = c.tensor<T>(kDst), a = c.tensor<T>(kSrc0), b = c.tensor<T>(kSrc1);
  const T s = c.scalar<T>();
  switch (c.w[kOp]) {
    case 0: FORMS(Add, c.binary(), d, a, b); break;
    case 1: FORMS(Sub, c.binary(), d, a, b); break;
    case 2: FORMS(Mul, c.binary(), d, a, b); break;
    case 3: FORMS(Max, c.binary(), d, a, b); break;
    case 4: FORMS(Min, c.binary(), d, a, b); break;
    case 5: FORMS(Adds, c.unary(), d, a, s); break;
    case 6: FORMS(Muls, c.unary(), d, a, s); break;
    case 7: FORMS(Maxs, c.unary(), d, a, s); break;
    case 8: FORMS(Mins, c.unary(), d, a, s); break;
    default:
      if (c.w[kForm] == 0) Duplicate(d, s, c.w[kCount]);
      else if (c.w[kForm] == 1) Duplicate(d, s, uint64_t(c.w[kCount]), uint8_t(c.w[kRepeat]), uint16_t(c.w[kDstBlk]), uint8_t(c.w[kDstRep]));
      else Duplicate(d, s, c.mask, uint8_t(c.w[kRepeat]), uint16_t(c.w[kDstBlk]), uint8_t(c.w[kDstRep]));
  }
}

template <class T>
__aicore__ inline void floats(const Call& c) {
  const auto d = c.tensor<T>(kDst), a = c.tensor<T>(kSrc0), b = c.tensor<T>(kSrc1);
  const T s = c.scalar<T>();
  const int repeat = c.w[kRepeat], blk = c.w[kSrc0Blk], rep = c.w[kSrc0Rep], to = c.w[kDstRep];
  const int32_t lanes = c.w[kCount];
  switch (c.w[kOp]) {
    case 10: FORMS(Div, c.binary(), d, a, b); break;
    case 11: FORMS(FusedMulAdd, c.binary(), d, a, b); break;
    case 12: FORMS(FusedMulAddRelu, c.binary(), d, a, b); break;
    case 13: FORMS(AddRelu, c.binary(), d, a, b); break;
    case 14: FORMS(SubRelu, c.binary(), d, a, b); break;
    case 15: FORMS(MulAddDst, c.binary(), d, a, b); break;
    case 16: FORMS(Exp, c.unary(), d, a); break;
    case 17: FORMS(Ln, c.unary(), d, a); break;
    case 18: FORMS(Abs, c.unary(), d, a); break;
    case 19: FORMS(Reciprocal, c.unary(), d, a); break;
    case 20: FORMS(Sqrt, c.unary(), d, a); break;
    case 21: FORMS(Rsqrt, c.unary(), d, a); break;
    case 22: FORMS(Relu, c.unary(), d, a); break;
    case 23: FORMS(LeakyRelu, c.unary(), d, a, s); break;
    case 24: FORMS(Axpy, c.unary(), d, a, s); break;
    case 30: c.w[kForm] == 2 ? WholeReduceSum(d, a, c.mask, repeat, to, blk, rep) : WholeReduceSum(d, a, lanes, repeat, to, blk, rep); break;
    case 31: c.w[kForm] == 2 ? WholeReduceMax(d, a, c.mask, repeat, to, blk, rep) : WholeReduceMax(d, a, lanes, repeat, to, blk, rep); break;
    case 32: c.w[kForm] == 2 ? WholeReduceMin(d, a, c.mask, repeat, to, blk, rep) : WholeReduceMin(d, a, lanes, repeat, to, blk, rep); break;
    case 33: c.w[kForm] == 2 ? BlockReduceSum(d, a, repeat, c.mask, to, blk, rep) : BlockReduceSum(d, a, repeat, lanes, to, blk, rep); break;
    case 34: c.w[kForm] == 2 ? BlockReduceMax(d, a, repeat, c.mask, to, blk, rep) : BlockReduceMax(d, a, repeat, lanes, to, blk, rep); break;
    case 35: c.w[kForm] == 2 ? PairReduceSum(d, a, repeat, c.mask, to, blk, rep) : PairReduceSum(d, a, repeat, lanes, to, blk, rep); break;
    case 36: Compare(d.template ReinterpretCast<uint8_t>(), a, b, CMPMODE(c.w[kExtra]), 0ul, uint8_t(repeat), c.binary()); break;
    case 37: CompareScalar(d.template ReinterpretCast<uint8_t>(), a, s, CMPMODE(c.w[kExtra]), 0ul, uint8_t(repeat), c.unary()); break;
    default: {
      const auto bits = c.memory[uint32_t(c.w[kExtra]) * 32];
      if (c.w[kOp] == 38) Select(d, bits, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, uint64_t(lanes), uint8_t(repeat), c.binary());
      else Select(d, bits, a, s, SELMODE::VSEL_TENSOR_SCALAR_MODE, uint64_t(lanes), uint8_t(repeat), c.binary());
    }
  }
}

template <class T>
__aicore__ inline void shifts(const Call& c) {
  const auto d = c.tensor<T>(kDst), a = c.tensor<T>(kSrc0);
  const T s = c.scalar<T>();
  if (c.w[kOp] == 25) {
    FORMS(ShiftLeft, c.unary(), d, a, s);
  } else if (c.w[kForm] == 2) {
    ShiftRight(d, a, s, c.mask, uint8_t(c.w[kRepeat]), c.unary(), c.w[kExtra] != 0);
  } else {
    ShiftRight(d, a, s, uint64_t(c.w[kCount]), uint8_t(c.w[kRepeat]), c.unary(), c.w[kExtra] != 0);
  }
}

template <class D, class S>
__aicore__ inline void cast(const Call& c) {
  const auto d = c.tensor<D>(kDst);
  const auto a = c.tensor<S>(kSrc0);
  FORMS(Cast, c.unary(), d, a, RoundMode(c.w[kExtra]));
}

__aicore__ inline void execute(const Call& c) {
  const int op = c.w[kOp], type = c.w[kType];
  if (op < 10) {
    switch (type) {
      case 0: return arithmetic<half>(c);
      case 1: return arithmetic<float>(c);
      case 2: return arithmetic<int16_t>(c);
      default: return arithmetic<int32_t>(c);
    }
  }
  if (op == 25 || op == 26) return type == 3 ? shifts<int32_t>(c) : shifts<int16_t>(c);
  if (op == 27 || op == 28) {
    const auto d = c.tensor<uint16_t>(kDst), a = c.tensor<uint16_t>(kSrc0), b = c.tensor<uint16_t>(kSrc1);
    if (op == 27) {
      FORMS(And, c.binary(), d, a, b);
    } else {
      FORMS(Or, c.binary(), d, a, b);
    }
    return;
  }
  if (op >= 40) {
    switch (type) {
      case 0: return cast<float, half>(c);
      case 1: return cast<half, float>(c);
      case 2: return cast<int32_t, float>(c);
      case 3: return cast<float, int32_t>(c);
      case 4: return cast<int32_t, half>(c);
      case 5: return cast<half, int16_t>(c);
      case 6: return cast<int16_t, half>(c);
      case 7: return cast<int8_t, half>(c);
      case 8: return cast<bfloat16_t, float>(c);
      default: return cast<float, bfloat16_t>(c);
    }
  }
  return type == 0 ? floats<half>(c) : floats<float>(c);
}

extern "C" __global__ __aicore__ void random_vector(GM_ADDR given, GM_ADDR result, GM_ADDR words, int32_t calls) {
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, kBytes);
  const LocalTensor<uint8_t> memory = buffer.Get<uint8_t>();
  GlobalTensor<uint8_t> in, out;
  in.SetGlobalBuffer((__gm__ uint8_t*)given);
  out.SetGlobalBuffer((__gm__ uint8_t*)result);
  DataCopy(memory, in, kBytes);
  const auto* w = (__gm__ int32_t*)words;
  for (int32_t i = 0; i < calls; ++i, w += kWords) {
    const auto word = [w](int at) { return uint64_t(uint32_t(w[at])) | uint64_t(uint32_t(w[at + 1])) << 32; };
    execute({w, memory, {word(kLow0), word(kHigh0)}});
  }
  DataCopy(out, memory, kBytes);
}
