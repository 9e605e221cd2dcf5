// SPDX-License-Identifier: Apache-2.0
// A list whose first elements lie in itself: lists that mostly have one or two need no memory of their own.
#pragma once

#include <type_traits>
#include <vector>

namespace mco {

template <class T, size_t N>
class Few {
  static_assert(std::is_trivially_copyable<T>::value, "elements are copied as they lie");

 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return more_.empty() ? own_ : more_.data(); }
  T* end() { return begin() + size_; }
  const T* begin() const { return more_.empty() ? own_ : more_.data(); }
  const T* end() const { return begin() + size_; }
  T& operator[](size_t i) { return begin()[i]; }
  const T& operator[](size_t i) const { return begin()[i]; }
  void push_back(const T& x) {
    if (size_ < N && more_.empty()) {
      own_[size_++] = x;
      return;
    }
    if (more_.empty()) more_.assign(own_, own_ + size_);
    more_.resize(size_);  // what was taken off the front is longer than what is left
    more_.push_back(x);
    ++size_;
  }
  void pop_front() {
    T* const first = begin();
    for (size_t i = 1; i < size_; ++i) first[i - 1] = first[i];
    --size_;
  }

 private:
  T own_[N] = {};
  size_t size_ = 0;
  std::vector<T> more_;  // all of them, once they were more than N
};

}  // namespace mco
