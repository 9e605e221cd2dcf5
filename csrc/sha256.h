// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), for names and contents of the program cache.
#pragma once
#include <array>
#include <cstdint>
#include <cstddef>
#include <cstring>

namespace mco {

class Sha256 {
 public:
  static constexpr size_t kBytes = 32;

  // Writes 64 lower-case hexadecimal digits and a terminating zero.
  static void Hex(const char* data, size_t size, char out[65]) {
    Sha256 hash;
    hash.Update(reinterpret_cast<const uint8_t*>(data), size);
    hash.FinishHex(out);
  }

  void Update(const uint8_t* data, size_t size) {
    total_ += size;
    while (size > 0) {
      const size_t take = size < kBlock - used_ ? size : kBlock - used_;
      std::memcpy(block_.data() + used_, data, take);
      used_ += take, data += take, size -= take;
      if (used_ == kBlock) Compress(), used_ = 0;
    }
  }

  void Finish(uint8_t out[kBytes]) {
    const uint64_t bits = total_ * 8;
    const uint8_t one = 0x80, zero = 0;
    Update(&one, 1);
    while (used_ != kLengthAt) Update(&zero, 1);
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
    Update(length, sizeof(length));
    for (size_t i = 0; i < kBytes; i++) out[i] = static_cast<uint8_t>(h_[i / 4] >> (24 - 8 * (i % 4)));
  }

  void FinishHex(char out[65]) {
    uint8_t bytes[kBytes];
    Finish(bytes);
    for (size_t i = 0; i < 2 * kBytes; i++) out[i] = "0123456789abcdef"[bytes[i / 2] >> (i % 2 ? 0 : 4) & 15];
    out[2 * kBytes] = 0;
  }

 private:
  static constexpr size_t kBlock = 64;
  static constexpr size_t kLengthAt = 56;

  static uint32_t Rotate(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

  void Compress() {
    static constexpr uint32_t kRound[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    uint32_t w[64];
    for (int i = 0; i < 16; i++) {
      w[i] = uint32_t(block_[4 * i]) << 24 | uint32_t(block_[4 * i + 1]) << 16 | uint32_t(block_[4 * i + 2]) << 8 |
             block_[4 * i + 3];
    }
    for (int i = 16; i < 64; i++) {
      const uint32_t s0 = Rotate(w[i - 15], 7) ^ Rotate(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const uint32_t s1 = Rotate(w[i - 2], 17) ^ Rotate(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    std::array<uint32_t, 8> v = h_;
    for (int i = 0; i < 64; i++) {
      const uint32_t s1 = Rotate(v[4], 6) ^ Rotate(v[4], 11) ^ Rotate(v[4], 25);
      const uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + kRound[i] + w[i];
      const uint32_t s0 = Rotate(v[0], 2) ^ Rotate(v[0], 13) ^ Rotate(v[0], 22);
      const uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
      v = {t1 + t2, v[0], v[1], v[2], v[3] + t1, v[4], v[5], v[6]};
    }
    for (size_t i = 0; i < 8; i++) h_[i] += v[i];
  }

  std::array<uint32_t, 8> h_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, kBlock> block_{};
  size_t used_ = 0;
  uint64_t total_ = 0;
};

}  // namespace mco
