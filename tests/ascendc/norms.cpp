// SPDX-License-Identifier: Apache-2.0
// Normalisations and their gradients, DropOut, integers to half: x and y hold rows, v gamma, beta, variances and means
// of 256 each; o, p and q are outputs.
#include "rows.h"

using Memory = RowMemory<4096>;

struct Sizes {
  uint32_t rows, inner, n, k, mode, what;
};
struct Args {
  GM_ADDR x;
  GM_ADDR y;
  GM_ADDR v;
  GM_ADDR o;
  GM_ADDR p;
  GM_ADDR q;
  Sizes s;
};

constexpr NormalizeConfig kThree{ReducePattern::AR, 3, false, false, false};
constexpr WelfordUpdateConfig kInplace{true};

template <class T>
__aicore__ inline void norms(Memory& m, const Args& g) {
  const Sizes& s = g.s;
  const uint32_t count = s.rows * s.inner * (s.mode == 2 ? s.n : 1);
  const auto x = load(m.at<T>(0), g.x, count), y = load(m.at<T>(16), g.y, count), v = load(m.at<T>(32), g.v, 1024);
  const auto o = m.at<T>(48), p = m.at<T>(64), q = m.at<T>(80);
  auto tmp = m.at<uint8_t>(96, 1024);
  const T epsilon = T(0.001f);
  Duplicate(o, T(-9), 4096), Duplicate(p, T(-9), 4096), Duplicate(q, T(-9), 4096);
  switch (s.mode) {
    case 0: {
      LayerNormGradTiling tiling{1, s.rows, s.inner, s.n};
      const LayerNormGradShapeInfo shape{s.k ? DataFormat::NZ : DataFormat::ND};
      if (s.what)
        LayerNormGrad<T>(o, p, x, y, v[512], v[768], v, tmp, epsilon, tiling);
      else
        LayerNormGrad(o, p, x, y, v[512], v[768], v, epsilon, tiling, shape);
      break;
    }
    case 1: {
      LayerNormGradBetaTiling tiling{1, s.rows, s.inner, s.n};
      if (s.what)
        LayerNormGradBeta<T>(o, p, y, x, tmp, tiling);
      else
        LayerNormGradBeta(o, p, y, x, tiling);
      break;
    }
    case 2: {
      GroupNormTiling tiling;
      const uint32_t shape[4] = {s.rows, s.n, 1, s.what};
      GetGroupNormNDTillingInfo(ShapeInfo(4, shape), 1024, sizeof(T), false, s.k, tiling);
      if (s.what % 2)
        GroupNorm<T>(o, p, q, x, v, v[256], tmp, epsilon, tiling);
      else
        GroupNorm(o, p, q, x, v, v[256], epsilon, tiling);
      break;
    }
    case 3: {
      DeepNormTiling tiling{1, s.rows, s.inner, s.n};
      if (s.what)
        DeepNorm<T>(o, p, q, x, y, v[256], v, tmp, T(0.75f), epsilon, tiling);
      else
        DeepNorm(o, p, q, x, y, v[256], v, T(0.75f), epsilon, tiling);
      break;
    }
    case 4: {
      BatchNormTiling tiling{s.rows, s.inner};
      if (s.what)
        BatchNorm<T>(o, p, q, x, v, v[256], tmp, epsilon, tiling);
      else
        BatchNorm(x, p, q, x, v, v[256], epsilon, tiling), DataCopy(o, x, count);
      break;
    }
    default: {
      const LogSoftMaxTiling tiling{s.rows, s.inner, count};
      const SoftMaxShapeInfo shape{s.rows, s.inner, s.rows, s.n};
      if (s.what)
        LogSoftMax<T>(o, p, q, x, tmp, tiling);
      else
        LogSoftMax<T, false>(o, p, q, x, tmp, tiling, shape);
    }
  }
  store(g.o, o, 4096), store(g.p, p, 4096), store(g.q, q, 4096);
}

// With float beside T.
template <class T>
__aicore__ inline void parts(Memory& m, const Args& g) {
  const Sizes& s = g.s;
  const auto x = load(m.at<T>(0), g.x, s.rows * s.inner);
  const auto y = load(m.at<float>(16), g.y, 1024), v = load(m.at<float>(32), g.v, 1024);
  const auto o = m.at<T>(48);
  const auto p = m.at<float>(64), q = m.at<float>(80);
  const auto counts = m.at<int32_t>(96, 1024);
  auto tmp = m.at<uint8_t>(104, 1024);
  Duplicate(o, T(-9), 4096), Duplicate(p, -9.0f, 4096), Duplicate(q, -9.0f, 4096);
  Cast(counts, y[512], RoundMode::CAST_RINT, 512);
  switch (s.mode) {
    case 0: {
      NormalizePara para(s.rows, s.n, s.inner);
      if (s.what == 0) Normalize<float, T>(o, p, v[768], v[512], x, v, v[256], tmp, 0.001f, para);
      if (s.what == 1) Normalize<float, T, false, NLCFG_NOBETA>(o, p, v[768], v[512], x, v, v, 0.001f, para);
      if (s.what == 2) Normalize<float, T, false, NLCFG_NOGAMMA>(o, p, v[768], v[512], x, v, v[256], 0.001f, para);
      if (s.what == 3) Normalize<float, T, false, NLCFG_NOOPT>(o, p, v[768], v[512], x, v, v, 0.001f, para);
      if (s.what == 4) Normalize<float, T, false, kThree>(o, p, v[768], v[512], x, v, v[256], 0.001f, para);
      break;
    }
    case 1: {
      const WelfordUpdateParam para{s.rows, s.inner, s.n, 1.0f / s.k};
      if (s.what)
        WelfordUpdate<T, float, false, kInplace>(p, q, y, y[256], x, tmp, para);
      else
        WelfordUpdate<T, float>(p, q, y, y[256], x, para);
      break;
    }
    default: {
      // n of the parts have k values each, the others one less
      const uint32_t tail = s.inner - s.n, all = s.n * s.k + tail * (s.k - 1);
      WelfordFinalizePara para{s.k, s.inner, s.k, s.n, s.k - 1, tail, 1.0f / s.inner, 1.0f / all};
      if (s.what == 0) WelfordFinalize(p, q, y, y[256], para);
      if (s.what == 1) WelfordFinalize<false>(p, q, y, y[256], tmp, para);
      if (s.what == 2) WelfordFinalize(p, q, y, y[256], counts, para);
      if (s.what == 3) WelfordFinalize<false>(p, q, y, y[256], counts, tmp, para);
      if (s.what == 4) para.headCountLength += 1, WelfordFinalize(p, q, y, y[256], para);
    }
  }
  store(g.o, o, 4096), store(g.p, p, 4096), store(g.q, q, 4096);
}

template <class T>
__aicore__ inline void drops(Memory& m, const Args& g) {
  const Sizes& s = g.s;
  const auto x = load(m.at<T>(0), g.x, s.rows * s.inner);
  const auto mask = load(m.at<uint8_t>(32), g.y, 4096);
  const auto tmp = m.at<uint8_t>(64, 1024);
  const auto o = m.at<T>(48);
  Duplicate(o, T(-9), 4096);
  DropOutShapeInfo info;
  info.firstAxis = s.rows, info.srcLastAxis = s.inner, info.maskLastAxis = s.n;
  const float keep = s.k / 8.0f;
  if (s.mode == 0) DropOut(o, x, mask, keep, info);
  if (s.mode == 1) DropOut<T, false, 1>(o, x, mask, tmp, keep, info);
  if (s.mode == 2) DropOut<T, false, 2>(o, x, mask, tmp, keep, info);
  if (s.mode == 3) DropOut<T, true, 3>(o, x, mask, tmp, keep, info);
  if (s.mode == 4) DropOut<T, false, 4>(o, x, mask, keep, info);
  store(g.o, o, 4096);
}

// rows and inner of scales and offsets, source of n and k.
template <class S, class T, bool transposed>
__aicore__ inline void integers(Memory& m, const Args& g) {
  const Sizes& s = g.s;
  auto x = load(m.at<int8_t>(0), g.x, 4096).ReinterpretCast<S>();
  x.SetSize(s.n * s.k);
  auto scale = load(m.at<T>(16, 1024), g.y, s.rows * s.inner);
  auto offset = load(m.at<T>(32, 1024), g.v, s.rows * s.inner);
  const auto tmp = m.at<uint8_t>(64, 1024);
  const auto o = m.at<T>(48);
  const AntiQuantShapeInfo info{s.rows, s.inner, s.rows, s.inner};
  const T a = offset.GetValue(0), b = scale.GetValue(0);
  if (s.mode == 0) AscendAntiQuant<S, T, transposed>(o, x, offset, scale, tmp, s.k, info);
  if (s.mode == 1) {
    const uint32_t shape[2] = {s.rows, s.inner};
    scale.SetShapeInfo(ShapeInfo(2, shape)), offset.SetShapeInfo(ShapeInfo(2, shape));
    AscendAntiQuant<S, T, transposed>(o, x, offset, scale, s.k);
  }
  if (s.mode == 2) AscendAntiQuant<S, T, transposed>(o, x, scale, tmp, s.k, info);
  if (s.mode == 3) AscendAntiQuant<S, T, transposed>(o, x, a, b, tmp, s.k);
  if (s.mode == 4) AscendAntiQuant<S, T, transposed>(o, x, a, b, s.k);
  if (s.mode == 5) AscendAntiQuant<S, T, transposed>(o, x, b, tmp, s.k);
  if (s.mode == 6) AscendAntiQuant<S, T, transposed>(o, x, scale, tmp, s.k);
  store(g.o, o, s.n * s.k);
}

extern "C" __global__ __aicore__ void norm_float(GM_ADDR x, GM_ADDR y, GM_ADDR v, GM_ADDR o, GM_ADDR p, GM_ADDR q,
                                                 uint32_t group, Sizes s) {
  Memory m;
  const Args args{x, y, v, o, p, q, s};
  if (group == 0) return norms<float>(m, args);
  if (group == 1) return parts<float>(m, args);
  drops<float>(m, args);
}
extern "C" __global__ __aicore__ void norm_half(GM_ADDR x, GM_ADDR y, GM_ADDR v, GM_ADDR o, GM_ADDR p, GM_ADDR q,
                                                uint32_t group, Sizes s) {
  Memory m;
  const Args args{x, y, v, o, p, q, s};
  if (group == 0) return norms<half>(m, args);
  if (group == 1) return parts<half>(m, args);
  drops<half>(m, args);
}
extern "C" __global__ __aicore__ void anti(GM_ADDR x, GM_ADDR y, GM_ADDR v, GM_ADDR o, uint32_t kind, Sizes s) {
  Memory m;
  const Args args{x, y, v, o, nullptr, nullptr, s};
  if (kind == 0) return integers<int8_t, half, false>(m, args);
  if (kind == 1) return integers<int8_t, half, true>(m, args);
  if (kind == 2) return integers<int8_t, bfloat16_t, false>(m, args);
  if (kind == 3) return integers<int4b_t, half, false>(m, args);
  integers<int4b_t, bfloat16_t, true>(m, args);
}
