// SPDX-License-Identifier: Apache-2.0
// Proposals (boxes of 8 elements x1 y1 x2 y2 score label - -): fields, areas, intersections, suppression.
#include "handlers.h"
#include "picks.h"

namespace mco {

namespace {

constexpr int kGroup = 16, kProposal = 8, kKept = 4;

static_assert(int(isa::vconcat::field) == int(isa::vextract::field), "one handler reads both");

// Coordinates of 16 proposals as float32.
struct Boxes {
  float field[4][kGroup];
  Boxes(const uint8_t* at, DType t) {
    for (int i = 0; i < kGroup; ++i) {
      for (int f = 0; f < 4; ++f) field[f][i] = load_float(at + (i * kProposal + f) * kSize[t], t);
    }
  }
};

}  // namespace

void check_scores(const Program& p, const Instr& in) {
  need_on_chip(p, in);
  need_dtype(p, in, isa::vaadd::dst, kScores);
  for (int i = 1; i < int(in.tensors.size()); ++i) need_same_dtype(p, in, isa::vaadd::dst, i);
}

void check_field(const Program& p, const Instr& in) { check_scores(p, in); }

void run_field(Machine& m, const Instr& in) {
  const int64_t repeat = m.arg(in, isa::vconcat::repeat), field = ranged_arg(m, in, isa::vconcat::field);
  const Wide count = Wide(repeat) * kGroup;
  const int size = in.tensors[isa::vconcat::dst].size;
  const bool packing = in.op->code == 0;
  const Wide dense = count * size, wide = repeat ? (count * kProposal - (kProposal - 1 - field)) * size : 0;
  const uint8_t* src = m.read(in, isa::vconcat::src, 0, packing ? dense : wide);
  uint8_t* dst = m.write(in, isa::vconcat::dst, 0, packing ? wide : dense);
  for (int64_t r = 0; r < repeat; ++r) {
    uint8_t row[kGroup * 4];
    for (int i = 0; i < kGroup; ++i) {
      const int64_t n = r * kGroup + i, inside = (n * kProposal + field) * size;
      if (packing) {
        std::memmove(dst + inside, src + n * size, size_t(size));
      } else {
        std::memcpy(row + i * size, src + inside, size_t(size));
      }
    }
    if (!packing) std::memcpy(dst + r * kGroup * size, row, size_t(kGroup * size));
  }
}

void run_rpac(Machine& m, const Instr& in) {
  const int64_t repeat = m.arg(in, isa::vrpac::repeat);
  const DType t = in.tensors[isa::vrpac::src].dtype;
  const float extra = float(m.value_arg(in, isa::vrpac::scalar, t).f);
  const int size = kSize[t];
  const uint8_t* src = m.read(in, isa::vrpac::src, 0, Wide(repeat) * kGroup * kProposal * size);
  uint8_t* dst = m.write(in, isa::vrpac::dst, 0, Wide(repeat) * kGroup * size);
  for (int64_t r = 0; r < repeat; ++r) {
    const Boxes box(src + r * kGroup * kProposal * size, t);
    for (int i = 0; i < kGroup; ++i) {
      float side[2];
      for (int k = 0; k < 2; ++k) {
        side[k] = rounded(rounded(box.field[2 + k][i] - box.field[k][i], t, m.saturate) + extra, t, m.saturate);
      }
      store_float(dst + (r * kGroup + i) * size, side[0] * side[1], t, m.saturate);
    }
  }
}

void run_viou(Machine& m, const Instr& in) {
  const int64_t repeat = m.arg(in, isa::viou::repeat);
  const DType t = in.tensors[isa::viou::dst].dtype;
  const float extra = float(m.value_arg(in, isa::viou::scalar, t).f);
  const int size = kSize[t], group = kGroup * kProposal * size;
  const uint8_t* a = m.read(in, isa::viou::src0, 0, Wide(repeat) * group);
  const uint8_t* b = m.read(in, isa::viou::src1, 0, repeat ? group : 0);
  uint8_t* dst = m.write(in, isa::viou::dst, 0, Wide(repeat) * kGroup * kGroup * size);
  for (int64_t r = 0; r < repeat; ++r) {
    const Boxes left(a + r * group, t), right(b, t);
    for (int i = 0; i < kGroup; ++i) {
      for (int j = 0; j < kGroup; ++j) {
        float side[2];
        for (int k = 0; k < 2; ++k) {
          const float low = left.field[k][i] > right.field[k][j] ? left.field[k][i] : right.field[k][j];
          const float x = left.field[2 + k][i], y = right.field[2 + k][j], high = x < y ? x : y;
          const float s = rounded(rounded(high - low, t, m.saturate) + extra, t, m.saturate);
          side[k] = s > 0 ? s : 0.0f;
        }
        store_float(dst + ((r * kGroup + i) * kGroup + j) * size, side[0] * side[1], t, m.saturate);
      }
    }
  }
}

void run_vaadd(Machine& m, const Instr& in) {
  const int64_t repeat = m.arg(in, isa::vaadd::repeat);
  const DType t = in.tensors[isa::vaadd::dst].dtype;
  const int size = kSize[t];
  const uint8_t* a = m.read(in, isa::vaadd::src0, 0, Wide(repeat) * kGroup * size);
  const uint8_t* b = m.read(in, isa::vaadd::src1, 0, repeat ? kGroup * size : 0);
  uint8_t* dst = m.write(in, isa::vaadd::dst, 0, Wide(repeat) * kGroup * kGroup * size);
  for (int64_t r = 0; r < repeat; ++r) {
    float x[kGroup], y[kGroup];
    for (int i = 0; i < kGroup; ++i) {
      x[i] = load_float(a + (r * kGroup + i) * size, t);
      y[i] = load_float(b + i * size, t);
    }
    for (int i = 0; i < kGroup * kGroup; ++i) {
      store_float(dst + (r * kGroup * kGroup + i) * size, x[i / kGroup] + y[i % kGroup], t, m.saturate);
    }
  }
}

void check_mrgch(const Program& p, const Instr& in) {
  need_on_chip(p, in);
  if (in.tensors[isa::vmrgch::src].size > 2)
    refuse(p, in, "element size of src", std::to_string(in.tensors[isa::vmrgch::src].size), "1 or 2 bytes");
  need_same_dtype(p, in, isa::vmrgch::dst, isa::vmrgch::src);
}

void run_mrgch(Machine& m, const Instr& in) {
  const int64_t repeat = m.arg(in, isa::vmrgch::repeat);
  const int size = in.tensors[isa::vmrgch::dst].size, kept = kKept * size;
  const uint8_t* src = m.read(in, isa::vmrgch::src, 0, Wide(repeat) * kVectorBytes);
  uint8_t* dst = m.write(in, isa::vmrgch::dst, 0, Wide(repeat) * kBlocks * kept);
  for (int64_t r = 0; r < repeat; ++r) {
    uint8_t row[kBlocks * kKept * 2];
    for (int b = 0; b < kBlocks; ++b)
      std::memcpy(row + b * kept, src + r * kVectorBytes + b * kBlockBytes, size_t(kept));
    std::memcpy(dst + r * kBlocks * kept, row, size_t(kBlocks * kept));
  }
}

void check_suppression(const Program& p, const Instr& in) {
  need_on_chip(p, in);
  for (int i = 0; i < int(in.tensors.size()); ++i) need_dtype(p, in, i, bit(U16));
}

void run_rpn_cor(Machine& m, const Instr& in) {
  const int64_t repeat = m.arg(in, isa::rpn_cor::repeat), matrix_rep = m.arg(in, isa::rpn_cor::src0_rep),
                vector_rep = m.arg(in, isa::rpn_cor::src1_rep);
  if (repeat == 0) return;
  const uint8_t* matrix = m.read(in, isa::rpn_cor::src0, 0, Wide(repeat - 1) * matrix_rep + kGroup * 2);
  const uint8_t* vector = m.read(in, isa::rpn_cor::src1, 0, Wide(repeat - 1) * vector_rep + kGroup * 2);
  m.read(in, isa::rpn_cor::ir, 0, 2);
  uint8_t* ir = m.write(in, isa::rpn_cor::ir, 0, 2);
  for (int64_t r = 0; r < repeat; ++r) {
    uint64_t bits = uint64_t(load_int(ir, U16));
    for (int i = 0; i < kGroup; ++i) {
      if (load_int(vector + r * vector_rep + i * 2, U16) == 0)
        bits |= uint64_t(load_int(matrix + r * matrix_rep + i * 2, U16));
    }
    std::memcpy(ir, &bits, 2);
  }
}

void run_rpn_cor_diag(Machine& m, const Instr& in) {
  const uint8_t* src = m.read(in, isa::rpn_cor_diag::src, 0, kGroup * 2);
  const uint8_t* ir = m.read(in, isa::rpn_cor_diag::ir, 0, 2);
  uint8_t* dst = m.write(in, isa::rpn_cor_diag::dst, 0, kGroup * 2);
  uint64_t state = uint64_t(load_int(ir, U16));
  uint16_t rows[kGroup], out[kGroup];
  std::memcpy(rows, src, sizeof rows);
  for (int i = 0; i < kGroup; ++i) {
    out[i] = state >> i & 1;
    if (!out[i]) state |= rows[i] & (0xFFFFu << (i + 1));
  }
  std::memcpy(dst, out, sizeof out);
}

}  // namespace mco
