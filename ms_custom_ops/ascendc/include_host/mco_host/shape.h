// SPDX-License-Identifier: Apache-2.0
// Shapes, lists and tensors of namespace gert.
#ifndef MCO_HOST_SHAPE_H_
#define MCO_HOST_SHAPE_H_

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "mco_host/types.h"

namespace gert {

class Shape {
 public:
  static constexpr size_t kMaxDimNum = 25;
  static constexpr int64_t kInvalidDimValue = std::numeric_limits<int64_t>::min();

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) {
    for (int64_t dim : dims) AppendDim(dim);
  }
  bool operator==(const Shape& other) const {
    if (count_ != other.count_) return false;
    for (size_t i = 0; i < count_; i++) {
      if (dims_[i] != other.dims_[i]) return false;
    }
    return true;
  }
  bool operator!=(const Shape& other) const { return !(*this == other); }

  int64_t GetShapeSize() const {
    int64_t size = 1;
    for (size_t i = 0; i < count_; i++) size *= dims_[i];
    return size;
  }
  bool IsScalar() const { return count_ == 0; }
  void SetScalar() { SetDimNum(0); }
  size_t GetDimNum() const { return count_; }
  void SetDimNum(size_t count) { count_ = count < kMaxDimNum ? count : kMaxDimNum, set_ = 0; }
  int64_t GetDim(size_t i) const { return i < count_ ? dims_[i] : kInvalidDimValue; }
  void SetDim(size_t i, int64_t dim) {
    if (i < kMaxDimNum) dims_[i] = dim, set_ = i >= set_ ? i + 1 : set_;
  }
  // Dims that SetDim gave a size to, behind those that there are: a DimNum is missing.
  size_t Beyond() const { return set_ > count_ ? set_ : 0; }
  Shape& AppendDim(int64_t dim) {
    if (count_ < kMaxDimNum) dims_[count_++] = dim;
    return *this;
  }
  int64_t operator[](size_t i) const { return i < kMaxDimNum ? dims_[i] : kInvalidDimValue; }
  int64_t& operator[](size_t i) { return i < kMaxDimNum ? dims_[i] : beyond_(); }

 private:
  static int64_t& beyond_() {
    static thread_local int64_t value;
    return value = kInvalidDimValue;
  }
  size_t count_ = 0, set_ = 0;
  int64_t dims_[kMaxDimNum] = {};
};

class StorageShape {
 public:
  StorageShape() = default;
  StorageShape(const Shape& origin, const Shape& storage) : origin_(origin), storage_(storage) {}
  StorageShape(std::initializer_list<int64_t> origin, std::initializer_list<int64_t> storage)
      : origin_(origin), storage_(storage) {}
  const Shape& GetOriginShape() const { return origin_; }
  const Shape& GetStorageShape() const { return storage_; }
  Shape& MutableOriginShape() { return origin_; }
  Shape& MutableStorageShape() { return storage_; }
  bool operator==(const StorageShape& other) const { return origin_ == other.origin_ && storage_ == other.storage_; }
  bool operator!=(const StorageShape& other) const { return !(*this == other); }

 private:
  Shape origin_, storage_;
};

class ExpandDimsType {
 public:
  explicit ExpandDimsType(uint64_t mask = 0) : mask_(mask) {}
  bool operator==(const ExpandDimsType& other) const { return mask_ == other.mask_; }

 private:
  uint64_t mask_;
};

class StorageFormat {
 public:
  StorageFormat() = default;
  StorageFormat(ge::Format origin, ge::Format storage, const ExpandDimsType& = ExpandDimsType())
      : origin_(origin), storage_(storage) {}
  ge::Format GetOriginFormat() const { return origin_; }
  ge::Format GetStorageFormat() const { return storage_; }
  void SetOriginFormat(ge::Format format) { origin_ = format; }
  void SetStorageFormat(ge::Format format) { storage_ = format; }

 private:
  ge::Format origin_ = ge::FORMAT_ND, storage_ = ge::FORMAT_ND;
};

class CompileTimeTensorDesc {
 public:
  ge::DataType GetDataType() const { return type_; }
  const StorageFormat& GetFormat() const { return format_; }
  ge::Format GetStorageFormat() const { return format_.GetStorageFormat(); }
  ge::Format GetOriginFormat() const { return format_.GetOriginFormat(); }
  void SetDataType(ge::DataType type) { type_ = type; }
  void SetStorageFormat(ge::Format format) { format_.SetStorageFormat(format); }
  void SetOriginFormat(ge::Format format) { format_.SetOriginFormat(format); }

 private:
  ge::DataType type_ = ge::DT_UNDEFINED;
  StorageFormat format_;
};

enum TensorPlacement { kOnDeviceHbm, kOnHost, kFollowing, kOnDeviceP2p, kTensorPlacementEnd };

class Tensor {
 public:
  Tensor() = default;
  Tensor(const StorageShape& shape, const StorageFormat& format, ge::DataType type)
      : shape_(shape), format_(format), type_(type) {}
  int64_t GetShapeSize() const { return shape_.GetStorageShape().GetShapeSize(); }
  const StorageShape& GetShape() const { return shape_; }
  const Shape& GetStorageShape() const { return shape_.GetStorageShape(); }
  const Shape& GetOriginShape() const { return shape_.GetOriginShape(); }
  StorageShape& GetShape() { return shape_; }
  Shape& MutableStorageShape() { return shape_.MutableStorageShape(); }
  Shape& MutableOriginShape() { return shape_.MutableOriginShape(); }
  ge::DataType GetDataType() const { return type_; }
  void SetDataType(ge::DataType type) { type_ = type; }
  const StorageFormat& GetFormat() const { return format_; }
  ge::Format GetStorageFormat() const { return format_.GetStorageFormat(); }
  ge::Format GetOriginFormat() const { return format_.GetOriginFormat(); }
  TensorPlacement GetPlacement() const { return data_ ? kOnHost : kOnDeviceHbm; }
  size_t GetSize() const {
    const int64_t bytes = ge::GetSizeInBytes(GetShapeSize(), type_);
    return bytes < 0 ? 0 : static_cast<size_t>(bytes);
  }
  // Null unless the op declares that its host functions depend on the values (ValueDepend), as on the chip.
  const void* GetAddr() const { return data_; }
  template <typename T>
  const T* GetData() const {
    return static_cast<const T*>(data_);
  }
  template <typename T>
  T* GetData() {
    return static_cast<T*>(const_cast<void*>(data_));
  }
  void SetData(const void* data) { data_ = data; }

 private:
  StorageShape shape_;
  StorageFormat format_;
  ge::DataType type_ = ge::DT_UNDEFINED;
  const void* data_ = nullptr;
};

// A list whose elements stand behind the header in one block, as attributes of list types are read.
class ContinuousVector {
 public:
  static std::unique_ptr<uint8_t[]> Create(size_t capacity, size_t element_bytes) {
    std::unique_ptr<uint8_t[]> block(new uint8_t[sizeof(ContinuousVector) + capacity * element_bytes]());
    new (block.get()) ContinuousVector(capacity);
    return block;
  }
  template <typename T>
  static std::unique_ptr<uint8_t[]> Create(size_t capacity) {
    return Create(capacity, sizeof(T));
  }
  size_t GetSize() const { return size_; }
  size_t GetCapacity() const { return capacity_; }
  ge::graphStatus SetSize(size_t size) {
    if (size > capacity_) return ge::GRAPH_FAILED;
    size_ = size;
    return ge::GRAPH_SUCCESS;
  }
  const void* GetData() const { return this + 1; }
  void* MutableData() { return this + 1; }

 protected:
  explicit ContinuousVector(size_t capacity) : capacity_(capacity) {}
  ContinuousVector(const ContinuousVector&) = delete;
  ContinuousVector& operator=(const ContinuousVector&) = delete;

 private:
  size_t capacity_, size_ = 0;
};

template <typename T>
class TypedContinuousVector : public ContinuousVector {
 public:
  const T* GetData() const { return static_cast<const T*>(ContinuousVector::GetData()); }
  T* MutableData() { return static_cast<T*>(ContinuousVector::MutableData()); }
};

// A list of lists: the inner ones stand one behind the other, each at a multiple of eight bytes.
class ContinuousVectorVector {
 public:
  size_t GetSize() const { return rows_.size(); }
  const ContinuousVector* Get(size_t i) const {
    return i < rows_.size() ? reinterpret_cast<const ContinuousVector*>(rows_[i].get()) : nullptr;
  }
  void Add(std::unique_ptr<uint8_t[]> row) { rows_.push_back(std::move(row)); }

 private:
  std::vector<std::unique_ptr<uint8_t[]>> rows_;
};

}  // namespace gert

#endif  // MCO_HOST_SHAPE_H_
