// SPDX-License-Identifier: Apache-2.0
// Every documented form of the element-wise names, as kernels call them that name no namespace: the arguments lead there.
#include "kernel_operator.h"

template <class T>
struct Forms {
  AscendC::TPipe pipe;
  AscendC::TBuf<> buffer;
  AscendC::LocalTensor<T> x, y, d;
  AscendC::GlobalTensor<T> out;
  static constexpr uint32_t kCount = 4 * 256 / sizeof(T);
  static constexpr uint64_t kLanes = 256 / sizeof(T);
  uint64_t bits[2] = {~uint64_t(0), sizeof(T) == 2 ? ~uint64_t(0) : 0};
  uint32_t row = 0;

  __aicore__ inline void Init(GM_ADDR a, GM_ADDR b, GM_ADDR o) {
    pipe.InitBuffer(buffer, 16384);
    x = buffer.GetWithOffset<T>(kCount, 0), y = buffer.GetWithOffset<T>(kCount, 4096);
    d = buffer.GetWithOffset<T>(kCount, 8192);
    AscendC::GlobalTensor<T> from;
    from.SetGlobalBuffer((__gm__ T*)a);
    DataCopy(x, from, kCount);
    from.SetGlobalBuffer((__gm__ T*)b);
    DataCopy(y, from, kCount);
    out.SetGlobalBuffer((__gm__ T*)o);
    AscendC::PipeBarrier<PIPE_ALL>();
    Duplicate(d, T(2), kCount);
  }
  // The result, and the destination as it was.
  __aicore__ inline void Next() {
    AscendC::PipeBarrier<PIPE_ALL>();
    DataCopy(out[row++ * kCount], d, kCount);
    AscendC::PipeBarrier<PIPE_ALL>();
    Duplicate(d, T(2), kCount);
  }
  __aicore__ inline void Register() {
    if constexpr (sizeof(T) == 2) {
      AscendC::SetVectorMask<T>(~uint64_t(0), ~uint64_t(0));
    } else {
      AscendC::SetVectorMask<T>(0, ~uint64_t(0));
    }
  }
};

#define EACH_FORM(NAME, PARAMS, ...)                                                             \
  NAME(f.d, __VA_ARGS__, int32_t(f.kCount)), f.Next();                                           \
  NAME<T>(f.d, __VA_ARGS__, int32_t(f.kCount)), f.Next();                                        \
  NAME(f.d, __VA_ARGS__, f.kLanes, 4, PARAMS), f.Next();                                         \
  NAME<T>(f.d, __VA_ARGS__, f.bits, 4, PARAMS), f.Next();                                        \
  NAME<T, true>(f.d, __VA_ARGS__, f.kLanes, 4, PARAMS), f.Next();                                \
  f.Register();                                                                                  \
  NAME<T, false>(f.d, __VA_ARGS__, AscendC::MASK_PLACEHOLDER, 4, PARAMS), f.Next();              \
  f.Register();                                                                                  \
  NAME<T, false>(f.d, __VA_ARGS__, AscendC::MASK_PLACEHOLDER_LIST, 4, PARAMS), f.Next();
// Two types, of the destination and of the sources.
#define EACH_FORM_OF_TWO(NAME, PARAMS, ...)                                                      \
  NAME(f.d, __VA_ARGS__, int32_t(f.kCount)), f.Next();                                           \
  NAME<T, T>(f.d, __VA_ARGS__, int32_t(f.kCount)), f.Next();                                     \
  NAME(f.d, __VA_ARGS__, f.kLanes, 4, PARAMS), f.Next();                                         \
  NAME<T, T>(f.d, __VA_ARGS__, f.bits, 4, PARAMS), f.Next();                                     \
  NAME<T, T, true>(f.d, __VA_ARGS__, f.kLanes, 4, PARAMS), f.Next();                             \
  f.Register();                                                                                  \
  NAME<T, T, false>(f.d, __VA_ARGS__, AscendC::MASK_PLACEHOLDER, 4, PARAMS), f.Next();           \
  f.Register();                                                                                  \
  NAME<T, T, false>(f.d, __VA_ARGS__, AscendC::MASK_PLACEHOLDER_LIST, 4, PARAMS), f.Next();
#define UNARY(NAME) EACH_FORM(NAME, AscendC::UnaryRepeatParams(1, 1, 8, 8), f.x)
#define SCALAR(NAME) EACH_FORM(NAME, AscendC::UnaryRepeatParams(1, 1, 8, 8), f.x, T(3))
#define BINARY(NAME) EACH_FORM(NAME, AscendC::BinaryRepeatParams(1, 1, 1, 8, 8, 8), f.x, f.y)

template <class T>
__aicore__ inline void Real(Forms<T>& f) {
  UNARY(Exp) UNARY(Ln) UNARY(Abs) UNARY(Reciprocal) UNARY(Sqrt) UNARY(Rsqrt) UNARY(Relu)
  BINARY(Add) BINARY(Sub) BINARY(Mul) BINARY(Div) BINARY(Max) BINARY(Min)
  BINARY(AddRelu) BINARY(SubRelu) BINARY(FusedMulAdd) BINARY(MulAddRelu) BINARY(FusedMulAddRelu)
  SCALAR(Adds) SCALAR(Muls) SCALAR(Maxs) SCALAR(Mins) SCALAR(LeakyRelu)
  EACH_FORM_OF_TWO(MulAddDst, AscendC::BinaryRepeatParams(1, 1, 1, 8, 8, 8), f.x, f.y)
  EACH_FORM_OF_TWO(Axpy, AscendC::UnaryRepeatParams(1, 1, 8, 8), f.x, T(3))
}

template <class T>
__aicore__ inline void Whole(Forms<T>& f) {
  SCALAR(ShiftLeft) SCALAR(ShiftRight)
  if constexpr (sizeof(T) == 2) {
    BINARY(And) BINARY(Or)
    UNARY(Not)
  }
}

#define KERNEL(TYPE, GROUP)                                                                  \
  extern "C" __global__ __aicore__ void GROUP##_##TYPE(GM_ADDR a, GM_ADDR b, GM_ADDR o) {    \
    Forms<TYPE> forms;                                                                       \
    forms.Init(a, b, o);                                                                     \
    GROUP(forms);                                                                            \
  }
KERNEL(float, Real)
KERNEL(half, Real)
KERNEL(uint16_t, Whole)
KERNEL(int32_t, Whole)
