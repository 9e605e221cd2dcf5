// SPDX-License-Identifier: Apache-2.0
// The shape that library functions are asked about.
#ifndef MCO_HOST_GE_SHAPE_H_
#define MCO_HOST_GE_SHAPE_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace ge {

class Shape {
 public:
  Shape() = default;
  explicit Shape(const std::vector<int64_t>& dims) : dims_(dims) {}
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  size_t GetDimNum() const { return dims_.size(); }
  int64_t GetDim(size_t i) const { return i < dims_.size() ? dims_[i] : 0; }
  void SetDim(size_t i, int64_t dim) {
    if (i < dims_.size()) dims_[i] = dim;
  }
  std::vector<int64_t> GetDims() const { return dims_; }
  int64_t GetShapeSize() const {
    int64_t size = 1;
    for (int64_t dim : dims_) size *= dim;
    return size;
  }

 private:
  std::vector<int64_t> dims_;
};

}  // namespace ge

#endif  // MCO_HOST_GE_SHAPE_H_
