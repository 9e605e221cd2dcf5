// SPDX-License-Identifier: Apache-2.0
// Sorting: groups of proposals or of scores with indices, and merges of sorted lists. Descending, NaN last, stable.
#include <numeric>
#include <vector>

#include "handlers.h"
#include "picks.h"

namespace mco {

namespace {

constexpr int kGroup = 16, kProposal = 8, kScore = 4, kSort32 = 32, kLists = 4, kRecordBytes = 8;

static_assert(isa::vmrgsort::lists_high == kLists, "arrays hold the lists");

// Whether a score stands before another.
bool before(float a, float b) {
  if (b != b) return a == a;
  return a > b;
}

// `count` records of `record` bytes sorted by the score at byte `key`; `out` apart from `in`.
void sort_records(uint8_t* out, const uint8_t* in, int count, int record, int key, DType t) {
  float score[kSort32];
  int place[kSort32];
  for (int i = 0; i < count; ++i) score[i] = load_float(in + i * record + key, t);
  std::iota(place, place + count, 0);
  std::stable_sort(place, place + count, [&](int a, int b) { return before(score[a], score[b]); });
  for (int i = 0; i < count; ++i) std::memcpy(out + i * record, in + place[i] * record, size_t(record));
}

struct List {
  std::vector<uint8_t> records;
  std::vector<float> score;
  size_t taken = 0;
  bool open() const { return taken < score.size(); }
};

// The list whose next record comes first, or -1 at the end.
int next_list(const std::vector<List>& lists, bool suspend) {
  int best = -1;
  for (int i = 0; i < int(lists.size()); ++i) {
    const List& l = lists[size_t(i)];
    if (!l.open()) {
      if (suspend) return -1;
      continue;
    }
    if (best < 0 || before(l.score[l.taken], lists[size_t(best)].score[lists[size_t(best)].taken])) best = i;
  }
  return best;
}

}  // namespace

void check_rpsort(const Program& p, const Instr& in) {
  need_on_chip(p, in);
  need_dtype(p, in, isa::vrpsort16::dst, kScores);
  need_same_dtype(p, in, isa::vrpsort16::dst, isa::vrpsort16::src);
}

void run_rpsort(Machine& m, const Instr& in) {
  const int64_t repeat = m.arg(in, isa::vrpsort16::repeat);
  const DType t = in.tensors[isa::vrpsort16::src].dtype;
  const int record = kProposal * kSize[t], group = kGroup * record;
  const uint8_t* src = m.read(in, isa::vrpsort16::src, 0, Wide(repeat) * group);
  uint8_t* dst = m.write(in, isa::vrpsort16::dst, 0, Wide(repeat) * group);
  uint8_t out[kGroup * kProposal * 4];
  for (int64_t r = 0; r < repeat; ++r) {
    sort_records(out, src + r * group, kGroup, record, kScore * kSize[t], t);
    std::memcpy(dst + r * group, out, size_t(group));
  }
}

void check_sort32(const Program& p, const Instr& in) {
  need_on_chip(p, in);
  need_dtype(p, in, isa::vsort32::src0, kScores);
  need_same_dtype(p, in, isa::vsort32::src0, isa::vsort32::dst);
  need_dtype(p, in, isa::vsort32::src1, bit(U32));
}

void run_sort32(Machine& m, const Instr& in) {
  const int64_t repeat = m.arg(in, isa::vsort32::repeat);
  const DType t = in.tensors[isa::vsort32::src0].dtype;
  const int size = kSize[t];
  const uint8_t* src = m.read(in, isa::vsort32::src0, 0, Wide(repeat) * kSort32 * size);
  const uint8_t* index = m.read(in, isa::vsort32::src1, 0, Wide(repeat) * kSort32 * 4);
  uint8_t* dst = m.write(in, isa::vsort32::dst, 0, Wide(repeat) * kSort32 * kRecordBytes);
  for (int64_t r = 0; r < repeat; ++r) {
    uint8_t rows[kSort32 * kRecordBytes] = {}, out[kSort32 * kRecordBytes];
    for (int i = 0; i < kSort32; ++i) {
      std::memcpy(rows + i * kRecordBytes, src + (r * kSort32 + i) * size, size_t(size));
      std::memcpy(rows + i * kRecordBytes + 4, index + (r * kSort32 + i) * 4, 4);
    }
    sort_records(out, rows, kSort32, kRecordBytes, 0, t);
    std::memcpy(dst + r * kSort32 * kRecordBytes, out, sizeof out);
  }
}

void check_mrgsort(const Program& p, const Instr& in) {
  need_on_chip(p, in);
  need_dtype(p, in, isa::vmrgsort::dst, kScores);
  for (int i = 0; i < kLists; ++i) need_same_dtype(p, in, isa::vmrgsort::dst, isa::vmrgsort::src0 + i);
  need_dtype(p, in, isa::vmrgsort::sr, bit(U16));
}

void run_mrgsort(Machine& m, const Instr& in) {
  const DType t = in.tensors[isa::vmrgsort::dst].dtype;
  static const char* const kAccepted[] = {"1", "1 or 3", "1, 3 or 7", "1, 3, 7 or 15"};
  const int64_t given = in.attrs[isa::vmrgsort::lists], valid = m.arg(in, isa::vmrgsort::valid_bit);
  const int64_t wanted = lists_of(valid);
  if (wanted < 1 || wanted > given) m.refuse(in, "valid_bit", std::to_string(valid), kAccepted[given - 1]);
  const size_t count = size_t(wanted);
  const bool suspend = in.attrs[isa::vmrgsort::suspend] != 0;
  const int record = in.attrs[isa::vmrgsort::record] ? kRecordBytes : kProposal * kSize[t],
            key = in.attrs[isa::vmrgsort::record] ? 0 : kScore * kSize[t];
  int64_t length[kLists];
  Wide total = 0;
  for (size_t i = 0; i < kLists; ++i) length[i] = m.arg(in, isa::vmrgsort::len0 + int(i));
  for (size_t i = 0; i < count; ++i) total += length[i];
  const int64_t repeat = m.arg(in, isa::vmrgsort::repeat);
  if (repeat == 0) return;
  const Wide wide_step = total * record;
  const uint8_t* src[kLists];
  for (size_t i = 0; i < count; ++i) {
    const Wide end = length[i] ? Wide(repeat - 1) * wide_step + Wide(length[i]) * record : 0;
    src[i] = m.read(in, isa::vmrgsort::src0 + int(i), 0, end);
  }
  uint8_t* dst = m.write(in, isa::vmrgsort::dst, 0, Wide(repeat) * wide_step);
  uint8_t* sr = m.write(in, isa::vmrgsort::sr, 0, kLists * 2);
  const int64_t step = int64_t(wide_step);
  for (int64_t r = 0; r < repeat; ++r) {
    std::vector<List> lists(count);
    for (size_t i = 0; i < count; ++i) {
      if (length[i] == 0) continue;
      const uint8_t* at = src[i] + r * step;
      lists[i].records.assign(at, at + length[i] * record);
      for (int64_t n = 0; n < length[i]; ++n) lists[i].score.push_back(load_float(at + n * record + key, t));
    }
    uint8_t* to = dst + r * step;
    for (int best; (best = next_list(lists, suspend)) >= 0; to += record) {
      List& l = lists[size_t(best)];
      std::memcpy(to, l.records.data() + l.taken++ * size_t(record), size_t(record));
    }
    uint16_t taken[kLists] = {};
    for (size_t i = 0; i < count; ++i) taken[i] = uint16_t(lists[i].taken);
    std::memcpy(sr, taken, sizeof taken);
  }
}

}  // namespace mco
