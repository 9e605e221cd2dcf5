// SPDX-License-Identifier: Apache-2.0
#include "computed.h"

#include <cmath>

namespace mco_acl {
namespace {

bool fits(const Weights& about, const Shaped& trap, const Shaped& dt, const Shaped* places) {
  if (trap.dtype != mco::F32 || dt.dtype != mco::F32 || trap.shape != dt.shape) return false;
  if (trap.shape.size() != 3 || trap.shape[2] != about.steps) return false;
  if (!places) return about.rows >= about.steps;
  if (places->dtype != mco::I32 || !places->contiguous()) return false;
  if (places->shape != std::vector<int64_t>{about.rows}) return false;
  const int32_t* step = reinterpret_cast<const int32_t*>(places->data);
  for (int64_t i = 0; i < about.rows; ++i) {
    if (step[i] < 0 || step[i] > about.steps) return false;
  }
  return true;
}

}  // namespace

std::vector<Shaped> trapezoid(const Weights& about, const Shaped& trap, const Shaped& dt, const Shaped* places) {
  if (!fits(about, trap, dt, places)) {
    refuse(ACLNN_ERR_INNER, "a plan whose weights do not fit; accepted: ms-custom-ops cache clear, and the call again");
  }
  const Shaped t = packed(trap), d = packed(dt);
  const std::vector<int64_t> shape = {t.shape[0], t.shape[1], about.rows};
  const Shaped factor = fresh(mco::F32, shape), gamma = fresh(mco::F32, shape);
  copied_bytes() += uint64_t(factor.bytes() + gamma.bytes());
  const float *from_trap = reinterpret_cast<const float*>(t.data), *from_dt = reinterpret_cast<const float*>(d.data);
  float *to_factor = reinterpret_cast<float*>(factor.data), *to_gamma = reinterpret_cast<float*>(gamma.data);
  const int32_t* step = places ? reinterpret_cast<const int32_t*>(places->data) : nullptr;
  for (int64_t line = 0, lines = shape[0] * shape[1]; line < lines; ++line) {
    float later = 0;  // what the next row leaves for the one before it
    for (int64_t i = about.rows; i-- > 0;) {
      const int64_t at = step ? step[i] : i;
      const bool there = at < about.steps;
      const float width = there ? from_dt[at] : 0.0f;
      const float own = there ? width / (1.0f + std::exp(-from_trap[at])) : 0.0f;
      to_gamma[i] = own;
      to_factor[i] = there || !step ? own + later : 0.0f;
      later = there ? width - own : 0.0f;
    }
    from_trap += about.steps, from_dt += about.steps, to_factor += about.rows, to_gamma += about.rows;
  }
  return {factor, gamma};
}

}  // namespace mco_acl
