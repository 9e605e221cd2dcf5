// SPDX-License-Identifier: Apache-2.0
// Every inner loop of two levels on the same operands: levels A B prints how many results were compared and exits with
// 1 where a bit differs, NaN payloads apart. For processors that only an emulator has (tests/tik/test_neon.py).
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "../simd/neon_level.h"

using namespace mco;

namespace {

using Bytes = std::vector<uint8_t>;
constexpr int64_t kRoom = 4096, kPad = 128;
int64_t compared = 0, different = 0;
uint64_t state = 1;

uint32_t next() {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return uint32_t(state >> 32);
}

const Kernels* level(const char* name) {
  const Kernels* all[] = {generic_kernels(), avx2_kernels(), avx512_kernels(), neon_kernels()};
  for (const Kernels* k : all) {
    if (k && !std::strcmp(k->name, name)) return k;
  }
  return nullptr;
}

bool is_float16(DType t) { return t == F16 || t == BF16; }

// Bits of any value of the dtype, NaN, infinities and subnormals among them; every other round moderate ones.
Bytes operand(DType t, bool moderate) {
  Bytes b(kRoom + 2 * kPad);
  for (size_t i = 0; i + 4 <= b.size(); i += 4) {
    uint32_t word = next();
    if (moderate && t == F32) word = (word & 0x80ffffffu) | 0x3e000000u;
    if (moderate && t == F16) word = (word & 0x83ff83ffu) | 0x34003800u;
    if (moderate && t == BF16) word = (word & 0x80ff80ffu) | 0x3e003f00u;
    std::memcpy(b.data() + i, &word, 4);
  }
  return b;
}

void same(const char* what, DType t, Bytes a, Bytes b) {
  const size_t size = t == F32 ? 4 : is_float16(t) ? 2 : 1;
  for (Bytes* x : {&a, &b}) {
    for (size_t i = 0; size > 1 && i + size <= x->size(); i += size) {
      uint32_t bits = 0;
      std::memcpy(&bits, x->data() + i, size);
      const uint32_t infinity = t == F32   ? 0x7f800000u
                                : t == F16 ? 0x7c00u
                                           : 0x7f80u,
                     sign = size == 4 ? 1u << 31 : 1u << 15;
      if ((bits & ~sign) > infinity) std::memset(x->data() + i, 0xff, size);
    }
  }
  ++compared;
  if (a == b) return;
  ++different;
  std::printf("%s of %s differs\n", what, kDTypeName[t]);
}

void lanes(const Kernels& a, const Kernels& b) {
  for (int op = 0; op < kLaneOps; ++op) {
    for (int t = 0; t < kDTypes; ++t) {
      if (!a.lane[op][t] || kSize[t] > 4) continue;
      for (int64_t n : {1, 15, 17, 63, 200}) {
        for (int round = 0; round < 4; ++round) {
          const Bytes x = operand(DType(t), round & 1), y = operand(DType(t), round & 1),
                      old = operand(DType(t), round & 1);
          Bytes out[2] = {old, old};
          LaneJob j;
          j.s0 = x.data();
          j.s1 = y.data();
          j.flat = n;
          j.scalar = 0.375f;
          j.iscalar = 3;
          j.saturate = round & 2;
          for (int k = 0; k < 2; ++k) {
            j.dst = out[k].data();
            (k ? b : a).lane[op][t](j);
          }
          same("lane operation", DType(t), out[0], out[1]);
        }
      }
    }
  }
}

void conversions(const Kernels& a, const Kernels& b) {
  std::vector<uint16_t> halves(65536 + kPad);
  for (int i = 0; i < 65536; ++i) halves[size_t(i)] = uint16_t(i);
  for (bool brain : {false, true}) {
    std::vector<float> wide[2] = {std::vector<float>(65536), std::vector<float>(65536)};
    (brain ? a.bfloat_to_float : a.half_to_float)(wide[0].data(), halves.data(), 65535);
    (brain ? b.bfloat_to_float : b.half_to_float)(wide[1].data(), halves.data(), 65535);
    const auto bytes = [](const auto& v) {
      const auto* p = reinterpret_cast<const uint8_t*>(v.data());
      return Bytes(p, p + v.size() * sizeof v[0]);
    };
    same("widened", F32, bytes(wide[0]), bytes(wide[1]));
    for (int round = 0; round < 64; ++round) {
      const Bytes x = operand(F32, false);
      std::vector<uint16_t> narrow[2] = {std::vector<uint16_t>(1000), std::vector<uint16_t>(1000)};
      const auto* from = reinterpret_cast<const float*>(x.data());
      (brain ? a.float_to_bfloat : a.float_to_half)(narrow[0].data(), from, 999, round & 1);
      (brain ? b.float_to_bfloat : b.float_to_half)(narrow[1].data(), from, 999, round & 1);
      same("narrowed", brain ? BF16 : F16, bytes(narrow[0]), bytes(narrow[1]));
      std::vector<int32_t> whole[2] = {std::vector<int32_t>(1024), std::vector<int32_t>(1024)};
      a.float_to_int(whole[0].data(), from, 1000, 1 + round % 6);
      b.float_to_int(whole[1].data(), from, 1000, 1 + round % 6);
      same("integers", I32, bytes(whole[0]), bytes(whole[1]));
    }
  }
}

void reductions(const Kernels& a, const Kernels& b) {
  for (DType t : {F16, BF16, F32}) {
    const int n = int(kVectorBytes) / kSize[t];
    for (int round = 0; round < 64; ++round) {
      const Bytes x = operand(t, round & 1);
      const int64_t repeats = 1 + round % (kRoom / kVectorBytes);
      const auto job = [&](Bytes& out, int64_t step) {
        return RepeatJob{out.data(), x.data(), step, kVectorBytes, repeats, (round & 2) != 0};
      };
      for (int width : {n, n / 8, 2}) {
        const int64_t step = round % 3 ? n / width * kSize[t] : kVectorBytes;
        Bytes out[2] = {Bytes(kRoom), Bytes(kRoom)};
        a.tree_sum[t](job(out[0], step), n, width);
        b.tree_sum[t](job(out[1], step), n, width);
        same("sum", t, out[0], out[1]);
      }
      Bytes out[2] = {Bytes(kRoom), Bytes(kRoom)};
      a.group_extreme[t](job(out[0], kBlockBytes), round & 1);
      b.group_extreme[t](job(out[1], kBlockBytes), round & 1);
      same("extreme of groups", t, out[0], out[1]);
      compared += 1;
      different += a.extreme[t](x.data(), n, round & 2) != b.extreme[t](x.data(), n, round & 2);
    }
  }
}

void products(const Kernels& a, const Kernels& b) {
  for (DType t : {F16, BF16, F32}) {
    const int64_t rows = 32, k = 48, columns = 32, blocks = k * kSize[t] / kBlockBytes;
    Bytes x(size_t(rows * k * 4)), y(x.size());
    for (Bytes* v : {&x, &y}) {
      Bytes some = operand(t, true);
      for (size_t i = 0; i < v->size(); ++i) (*v)[i] = some[i % kRoom];
    }
    Bytes out[2] = {Bytes(size_t(rows * columns * 4)), Bytes(size_t(rows * columns * 4))};
    for (int i = 0; i < 2; ++i) {
      const Kernels& l = i ? b : a;
      std::vector<float> left(size_t(rows * k)), right(size_t(columns * k));
      bool exact = l.pack_a[t]({x.data(), blocks * kFractalBytes, kFractalBytes, rows, k, left.data(), k});
      exact &= l.pack_b[t]({y.data(), kFractalBytes, columns / 16 * kFractalBytes, columns, k, right.data(), k * 16});
      l.gemm({left.data(), k, right.data(), k * 16, reinterpret_cast<float*>(out[i].data()), rows * 16, rows, k,
              columns / 16, false, exact});
    }
    same("product", F32, out[0], out[1]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Kernels* a = argc == 3 ? level(argv[1]) : nullptr;
  const Kernels* b = argc == 3 ? level(argv[2]) : nullptr;
  if (!a || !b) {
    std::fprintf(stderr, "usage: levels A B; accepted: two levels of this processor\n");
    return 2;
  }
  lanes(*a, *b);
  conversions(*a, *b);
  reductions(*a, *b);
  products(*a, *b);
  std::printf("%lld compared, %lld different\n", (long long)compared, (long long)different);
  return different != 0;
}
