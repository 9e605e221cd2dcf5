// SPDX-License-Identifier: Apache-2.0
// Data moves: DataCopy, DataCopyPad, Copy.
#pragma once

#include "mco/vector.h"

namespace AscendC {

struct DataCopyParams {
  DataCopyParams() = default;
  DataCopyParams(uint16_t count, uint16_t len, uint16_t src, uint16_t dst)
      : blockCount(count), blockLen(len), srcGap(src), dstGap(dst) {}
  uint16_t blockCount = 1;
  uint16_t blockLen = 0;
  union {
    uint16_t srcGap = 0;
    uint16_t srcStride;
  };
  union {
    uint16_t dstGap = 0;
    uint16_t dstStride;
  };
};

struct DataCopyExtParams {
  DataCopyExtParams() = default;
  DataCopyExtParams(uint16_t count, uint32_t len, uint32_t src, uint32_t dst, uint32_t reserved)
      : blockCount(count), blockLen(len), srcStride(src), dstStride(dst), rsv(reserved) {}
  uint16_t blockCount = 1;
  uint32_t blockLen = 0;
  uint32_t srcStride = 0;
  uint32_t dstStride = 0;
  uint32_t rsv = 0;
};

struct DataCopyPadParams {
  DataCopyPadParams() = default;
  DataCopyPadParams(bool pad, uint8_t left, uint8_t right, uint64_t value)
      : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}
  bool isPad = false;
  uint8_t leftPadding = 0;
  uint8_t rightPadding = 0;
  uint64_t paddingValue = 0;  // its low bits are those of an element
};

template <class T>
struct DataCopyPadExtParams {
  DataCopyPadExtParams() = default;
  DataCopyPadExtParams(bool pad, uint8_t left, uint8_t right, T value)
      : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}
  bool isPad = false;
  uint8_t leftPadding = 0;
  uint8_t rightPadding = 0;
  T paddingValue{};
};

struct Nd2NzParams {
  Nd2NzParams() = default;
  Nd2NzParams(uint16_t matrices, uint16_t rows, uint16_t columns, uint16_t srcMatrix, uint16_t srcRow, uint16_t dstC0,
              uint16_t dstRow, uint16_t dstMatrix)
      : ndNum(matrices),
        nValue(rows),
        dValue(columns),
        srcNdMatrixStride(srcMatrix),
        srcDValue(srcRow),
        dstNzC0Stride(dstC0),
        dstNzNStride(dstRow),
        dstNzMatrixStride(dstMatrix) {}
  uint16_t ndNum = 0;
  uint16_t nValue = 0;
  uint16_t dValue = 0;
  uint16_t srcNdMatrixStride = 0;
  uint16_t srcDValue = 0;
  uint16_t dstNzC0Stride = 0;
  uint16_t dstNzNStride = 0;
  uint16_t dstNzMatrixStride = 0;
};

// Pieces of one dimension, in elements: from startIndex on, each followed by a gap of `stride`, none beyond endIndex.
struct SliceInfo {
  uint32_t startIndex = 0;
  uint32_t endIndex = 31;
  uint32_t stride = 0;
  uint32_t burstLen = 32;  // of dimension 0 in blocks of 32 bytes, of others 1 element
  uint32_t shapeValue = 0;
};

}  // namespace AscendC

namespace mco_asc {

// What the cube alone reaches is no end of a plain move.
template <class T>
inline void need_movable(const mco_asc_where& where, const char* what, const AscendC::LocalTensor<T>& t) {
  constexpr uint32_t cube = IN_L0A | IN_L0B | IN_L0C;
  need_place(where, what, t.mco_home(), ~cube, "a tensor of UB, L1 or C2; LoadData, Mmad and Fixpipe reach the others");
}
template <class T>
inline void need_movable(const mco_asc_where&, const char*, const AscendC::GlobalTensor<T>&) {}

// A continuous copy moves whole blocks of 32 bytes; what is left over is dropped.
template <class D, class S>
inline void copy_count(const mco_asc_where& where, const D& dst, const S& src, int64_t bytes) {
  need_movable(where, "dst", dst), need_movable(where, "src", src);
  issue(Op::data_move, where, {operand(dst), operand(src)},
        {integer(1), integer(bytes / 32 * 32), integer(0), integer(0)});
}

template <class D, class S>
inline void copy_blocks(const mco_asc_where& where, const D& dst, const S& src, const AscendC::DataCopyParams& p) {
  need_movable(where, "dst", dst), need_movable(where, "src", src);
  if (!p.blockCount || !p.blockLen) return;
  issue(Op::data_move, where, {operand(dst), operand(src)},
        {integer(p.blockCount), integer(32 * int64_t(p.blockLen)), integer(32 * int64_t(p.srcGap)),
         integer(32 * int64_t(p.dstGap))});
}
// Of the bias table a block is 64 bytes.
template <class T>
inline void copy_blocks(const mco_asc_where& where, const LocalTensor<T>& dst, const LocalTensor<T>& src,
                        const AscendC::DataCopyParams& p) {
  need_movable(where, "dst", dst), need_movable(where, "src", src);
  if (!p.blockCount || !p.blockLen) return;
  const int64_t unit = AscendC::TPosition(dst.GetPosition()) == AscendC::TPosition::C2 ? 64 : 32;
  issue(Op::data_move, where, {operand(dst), operand(src)},
        {integer(p.blockCount), integer(unit * int64_t(p.blockLen)), integer(32 * int64_t(p.srcGap)),
         integer(unit * int64_t(p.dstGap))});
}

// The pieces of a slice one after the other, dimension 0 the fastest: where each begins, in elements.
class SlicePieces {
 public:
  SlicePieces(const mco_asc_where& where, const char* side, const AscendC::SliceInfo* info, uint32_t dims,
              uint32_t block)
      : info_(info), dims_(dims) {
    for (uint32_t d = 0; d < dims; ++d) {
      const auto& s = info[d];
      piece_[d] = d ? 1 : int64_t(s.burstLen) * block;
      if (!s.burstLen || (d && s.burstLen != 1) || s.endIndex < s.startIndex || s.endIndex >= s.shapeValue) {
        mco_asc_fault(
            &where,
            "slice of dimension %u of %s is {startIndex %u, endIndex %u, stride %u, burstLen %u, shapeValue "
            "%u}; accepted: startIndex <= endIndex < shapeValue, burstLen 1 (of dimension 0: 1 or more blocks)",
            d, side, s.startIndex, s.endIndex, s.stride, s.burstLen, s.shapeValue);
      }
      count_[d] = (int64_t(s.endIndex) - s.startIndex) / (piece_[d] + s.stride) + 1;
      total_ *= count_[d];
    }
  }
  int64_t total() const { return total_; }
  int64_t at(int64_t piece) const {
    int64_t place = 0, pitch = 1;
    for (uint32_t d = 0; d < dims_; ++d) {
      place += pitch * (info_[d].startIndex + piece % count_[d] * (piece_[d] + info_[d].stride));
      piece /= count_[d];
      pitch *= info_[d].shapeValue;
    }
    return place;
  }

 private:
  const AscendC::SliceInfo* info_;
  uint32_t dims_;
  int64_t piece_[8] = {}, count_[8] = {}, total_ = 1;
};

template <class D, class S>
inline void copy_slices(const mco_asc_where& where, const D& dst, const S& src, const AscendC::SliceInfo* to,
                        const AscendC::SliceInfo* from, uint32_t dims, uint32_t size) {
  if (!dims || dims > 8) mco_asc_fault(&where, "dimValue is %u; accepted: 1 to 8", dims);
  const SlicePieces out(where, "dst", to, dims, 32 / size), in(where, "src", from, dims, 32 / size);
  if (out.total() != in.total() || to[0].burstLen != from[0].burstLen) {
    mco_asc_fault(&where, "%lld pieces of %u blocks go to %lld pieces of %u; accepted: as many, of one burstLen",
                  (long long)in.total(), from[0].burstLen, (long long)out.total(), to[0].burstLen);
  }
  for (int64_t i = 0; i < in.total(); ++i)
    copy_count(where, dst[out.at(i)], src[in.at(i)], 32 * int64_t(to[0].burstLen));
}

// Rows of GM, each completed to whole blocks. Without padding of its own a row is completed by its first element.
template <class T>
inline void pad_in(const mco_asc_where& where, const LocalTensor<T>& dst, const GlobalTensor<T>& src, int64_t count,
                   int64_t bytes, int64_t src_gap, int64_t dst_gap, bool pads, int64_t left, int64_t right,
                   mco_asc_value value, bool floats);

// As a whole number of bytes of a pad value.
template <class T>
inline T from_bits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace mco_asc

namespace AscendC {

template <class T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count,
                     mco_asc::Where where = mco_asc::Where::here()) {
  // Of int4b_t a block that is begun is read: kernels of the chip read the 32 elements of a group so.
  const int64_t rest = std::is_same<T, int4b_t>::value ? 31 : 0;
  mco_asc::copy_count(where.of("DataCopy"), dst, src, mco_asc::bytes_for<T>(count) + rest);
}
template <class T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,
                     mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::copy_count(where.of("DataCopy"), dst, src, mco_asc::bytes_for<T>(count));
}
template <class T>
inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,
                     mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::copy_count(where.of("DataCopy"), dst, src, mco_asc::bytes_for<T>(count));
}
template <class T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& params,
                     mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::copy_blocks(where.of("DataCopy"), dst, src, params);
}
template <class T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& params,
                     mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::copy_blocks(where.of("DataCopy"), dst, src, params);
}
template <class T>
inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& params,
                     mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::copy_blocks(where.of("DataCopy"), dst, src, params);
}
template <class T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& p,
                     mco_asc::Where where = mco_asc::Where::here()) {
  using mco_asc::integer;
  mco_asc::issue(
      mco_asc::Op::nd2nz, where.of("DataCopy"), {mco_asc::operand(dst), mco_asc::operand(src)},
      {integer(p.ndNum), integer(p.nValue), integer(p.dValue), integer(p.srcNdMatrixStride), integer(p.srcDValue),
       integer(p.dstNzC0Stride), integer(p.dstNzNStride), integer(p.dstNzMatrixStride)});
}

// Value that completes rows of DataCopyPad where isPad is false.
template <class T, TPosition position = TPosition::MAX>
inline void SetPadValue(T value) {
  mco_asc_this_core("SetPadValue")->pad_value = double(value);
}

}  // namespace AscendC

namespace mco_asc {

template <class T>
inline void pad_in(const mco_asc_where& where, const LocalTensor<T>& dst, const GlobalTensor<T>& src, int64_t count,
                   int64_t bytes, int64_t src_gap, int64_t dst_gap, bool pads, int64_t left, int64_t right,
                   mco_asc_value value, bool floats) {
  if (!count || !bytes) return;
  if constexpr (std::is_same<T, int4b_t>::value) {  // bytes of two elements
    if (pads || left || right) mco_asc_fault(&where, "padding of elements of 4 bits; accepted: none");
    return pad_in(where, dst.template ReinterpretCast<uint8_t>(), src.template ReinterpretCast<uint8_t>(), count, bytes,
                  src_gap, dst_gap, false, 0, 0, value, false);
  }
  const int64_t size = int64_t(sizeof(T)), block = 32;
  if (bytes % size)
    mco_asc_fault(&where, "blockLen is %lld bytes; accepted: whole elements of %lld", (long long)bytes,
                  (long long)size);
  if (left * size > block || right * size > block) {
    mco_asc_fault(&where, "%lld and %lld elements of padding; accepted: 32 bytes at most on each side", (long long)left,
                  (long long)right);
  }
  const int64_t filled = (left * size + bytes + right * size + block - 1) / block * block;
  const int64_t rest = (filled - left * size - bytes) / size;  // elements behind a row
  // The engine writes zeros up to the next block; the dummies are asked for as padding on the right.
  if (pads) {
    issue(
        Op::data_move_pad, where, {operand(dst), operand(src)},
        {integer(count), integer(bytes), integer(src_gap), integer(32 * dst_gap), integer(left), integer(rest), value},
        {}, floats ? uint16_t(1 << 6) : uint16_t(0));
    return;
  }
  if (!rest) {
    issue(Op::data_move_pad, where, {operand(dst), operand(src)},
          {integer(count), integer(bytes), integer(src_gap), integer(32 * dst_gap), integer(left), integer(0),
           integer(0)});
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const GlobalTensor<T> row = src[uint64_t(i * (bytes + src_gap) / size)];
    const T first = *element<T>(row.mco_at(), row.mco_home(), 0, MCO_ASC_GM, where.call, Where::of(where));
    const LocalTensor<T> to = dst[uint32_t(i * (filled + 32 * dst_gap) / size)];
    issue(Op::data_move_pad, where, {operand(to), operand(row)},
          {integer(1), integer(bytes), integer(0), integer(0), integer(left), integer(rest), scalar(first)}, {},
          is_real<T> ? uint16_t(1 << 6) : uint16_t(0));
    if (left || right) {  // without isPad what these hold is not specified
      mco_asc_unspecified(&where, to.mco_home(), to.mco_at(), left * size);
      mco_asc_unspecified(&where, to.mco_home(), moved(to.mco_at(), left * size + bytes), rest * size);
    }
  }
}

template <class T>
inline void pad_out(const mco_asc_where& where, const GlobalTensor<T>& dst, const LocalTensor<T>& src, int64_t count,
                    int64_t bytes, int64_t src_gap, int64_t dst_gap) {
  if (!count || !bytes) return;
  issue(Op::data_move_pad, where, {operand(dst), operand(src)},
        {integer(count), integer(bytes), integer(32 * src_gap), integer(dst_gap), integer(0), integer(0), integer(0)});
}

}  // namespace mco_asc

namespace AscendC {

template <class T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const SliceInfo dstSliceInfo[],
                     const SliceInfo srcSliceInfo[], const uint32_t dimValue = 1,
                     mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::copy_slices(where.of("DataCopy"), dst, src, dstSliceInfo, srcSliceInfo, dimValue, sizeof(T));
}
template <class T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const SliceInfo dstSliceInfo[],
                     const SliceInfo srcSliceInfo[], const uint32_t dimValue = 1,
                     mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::copy_slices(where.of("DataCopy"), dst, src, dstSliceInfo, srcSliceInfo, dimValue, sizeof(T));
}

template <class T>
inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& p,
                        const DataCopyPadExtParams<mco_asc::same_t<T>>& pad,
                        mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::pad_in(where.of("DataCopyPad"), dst, src, p.blockCount, p.blockLen, p.srcStride, p.dstStride, pad.isPad,
                  pad.leftPadding, pad.rightPadding, mco_asc::scalar(pad.paddingValue), mco_asc::is_real<T>);
}
template <class T>
inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& p,
                        const DataCopyPadParams& pad, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::pad_in(where.of("DataCopyPad"), dst, src, p.blockCount, p.blockLen, p.srcGap, p.dstGap, pad.isPad,
                  pad.leftPadding, pad.rightPadding, mco_asc::scalar(mco_asc::from_bits<T>(pad.paddingValue)),
                  mco_asc::is_real<T>);
}
template <class T>
inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& p,
                        mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::pad_out(where.of("DataCopyPad"), dst, src, p.blockCount, p.blockLen, p.srcStride, p.dstStride);
}
template <class T>
inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p,
                        mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::pad_out(where.of("DataCopyPad"), dst, src, p.blockCount, p.blockLen, p.srcGap, p.dstGap);
}

// UB to UB on the vector pipe.
template <class T, bool isSetMask = true>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, uint8_t repeat,
                 const CopyRepeatParams& p, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::unary(mco_asc::Op::vcopy, "Copy", where, dst, src, mco_asc::lanes_of<isSetMask>(mask, repeat), p.dstStride,
                 p.dstRepeatSize, p.srcStride, p.srcRepeatSize);
}
template <class T, bool isSetMask = true>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], uint8_t repeat,
                 const CopyRepeatParams& p, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::unary(mco_asc::Op::vcopy, "Copy", where, dst, src, mco_asc::lanes_of<isSetMask>(mask, repeat), p.dstStride,
                 p.dstRepeatSize, p.srcStride, p.srcRepeatSize);
}
template <class T>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count,
                 mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::unary(mco_asc::Op::vcopy, "Copy", where, dst, src, int64_t(count));
}

}  // namespace AscendC
