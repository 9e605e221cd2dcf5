// SPDX-License-Identifier: Apache-2.0
// Tiling structures declared field by field: the host fills one, a kernel reads a plain struct of the same layout.
#ifndef MCO_HOST_TILING_DATA_H_
#define MCO_HOST_TILING_DATA_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "mco_host/types.h"

namespace optiling {

// Layout: each field at the next multiple of its own alignment, nested structures and the end at a multiple of eight:
// that of a kernel's `struct alignas(8)`.
class TilingDef {
 public:
  struct Field {
    std::string type, name;
    size_t offset, bytes, count;  // count 0: not an array
    ptrdiff_t nested;             // place of the member within the object when it is a structure, else 0
  };

  explicit TilingDef(const char* name) : name_(name) {}
  virtual ~TilingDef() = default;

  const char* GetTilingClassName() const { return name_; }
  size_t GetDataSize() const { return (end_ + alignment_ - 1) / alignment_ * alignment_; }
  size_t alignment() const { return alignment_; }
  const std::vector<Field>& fields() const { return fields_; }

  void SaveToBuffer(void* data, size_t capacity) const {
    if (!data || capacity < GetDataSize()) return;
    if (data == outside_) return;
    std::memset(data, 0, GetDataSize());
    std::memcpy(data, Bytes(), end_);
    for (const Field& field : fields_) {
      if (!field.nested) continue;
      Nested(field)->SaveToBuffer(static_cast<uint8_t*>(data) + field.offset, field.bytes);
    }
  }
  // Takes the values of a plain struct of the same layout.
  void LoadFromBuffer(const void* data, size_t size) {
    std::memset(Bytes(), 0, end_);
    std::memcpy(Bytes(), data, std::min(size, end_));
    for (const Field& field : fields_) {
      if (field.nested && field.offset + field.bytes <= size) {
        Nested(field)->LoadFromBuffer(static_cast<const uint8_t*>(data) + field.offset, field.bytes);
      }
    }
  }

  // From here on the values are those at `data`, which holds GetDataSize() bytes as long as they are used.
  void SetDataPtr(void* data) {
    outside_ = static_cast<uint8_t*>(data);
    for (const Field& field : fields_) {
      if (field.nested) Nested(field)->SetDataPtr(data ? outside_ + field.offset : nullptr);
    }
  }

 protected:
  size_t Add(const char* type, const char* name, size_t size, size_t align, size_t count) {
    return Place(type, name, size * std::max<size_t>(count, 1), align, count, 0);
  }
  size_t AddNested(const char* type, const char* name, const TilingDef& member) {
    const ptrdiff_t place = reinterpret_cast<const char*>(&member) - reinterpret_cast<const char*>(this);
    return Place(type, name, member.GetDataSize(), member.alignment(), 0, place);
  }
  template <typename T>
  T Read(size_t offset) const {
    T value;
    std::memcpy(&value, Bytes() + offset, sizeof(T));
    return value;
  }
  void Write(size_t offset, const void* value, size_t bytes) { std::memcpy(Bytes() + offset, value, bytes); }
  const void* At(size_t offset) const { return Bytes() + offset; }

 private:
  size_t Place(const char* type, const char* name, size_t bytes, size_t align, size_t count, ptrdiff_t nested) {
    const size_t offset = (end_ + align - 1) / align * align;
    fields_.push_back({type, name, offset, bytes, count, nested});
    alignment_ = std::max(alignment_, align);
    end_ = offset + bytes;
    bytes_.resize(end_);
    return offset;
  }
  uint8_t* Bytes() { return outside_ ? outside_ : bytes_.data(); }
  const uint8_t* Bytes() const { return outside_ ? outside_ : bytes_.data(); }
  TilingDef* Nested(const Field& field) const {
    return reinterpret_cast<TilingDef*>(reinterpret_cast<char*>(const_cast<TilingDef*>(this)) + field.nested);
  }
  const char* name_;
  size_t end_ = 0, alignment_ = 8;
  std::vector<Field> fields_;
  std::vector<uint8_t> bytes_;
  uint8_t* outside_ = nullptr;
};

}  // namespace optiling

// clang-format off
#define BEGIN_TILING_DATA_DEF(struct_name)                                                            \
  class struct_name : public ::optiling::TilingDef {                                                  \
   public:                                                                                            \
    struct_name() : ::optiling::TilingDef(#struct_name) {}

#define TILING_DATA_FIELD_DEF(data_type, field_name)                                                  \
   public:                                                                                            \
    void set_##field_name(data_type value) { Write(field_name##_at_, &value, sizeof(value)); }        \
    data_type get_##field_name() const { return Read<data_type>(field_name##_at_); }                  \
   private:                                                                                           \
    size_t field_name##_at_ = Add(#data_type, #field_name, sizeof(data_type), alignof(data_type), 0); \
   public:

#define TILING_DATA_FIELD_DEF_ARR(data_type, length, field_name)                                      \
   public:                                                                                            \
    void set_##field_name(const data_type* values) {                                                  \
      Write(field_name##_at_, values, sizeof(data_type) * (length));                                  \
    }                                                                                                 \
    data_type* get_##field_name() {                                                                   \
      return const_cast<data_type*>(static_cast<const data_type*>(At(field_name##_at_)));             \
    }                                                                                                 \
   private:                                                                                           \
    size_t field_name##_at_ =                                                                         \
        Add(#data_type, #field_name, sizeof(data_type), alignof(data_type), (length));                \
   public:

#define TILING_DATA_FIELD_DEF_STRUCT(struct_type, field_name)                                         \
   public:                                                                                            \
    struct_type field_name;                                                                           \
   private:                                                                                           \
    size_t field_name##_at_ = AddNested(#struct_type, #field_name, field_name);                       \
   public:

#define END_TILING_DATA_DEF };

// `op_type` is an op, an op with a tiling key behind it (Name_17), or a name of its own for a nested structure.
#define REGISTER_TILING_DATA_CLASS(op_type, class_name)                                               \
  static const bool MCO_HOST_NAME_(mco_tiling_class_##op_type) __attribute__((unused)) =              \
      ::mco_host::AddTilingClass(#op_type, #class_name, __FILE__, __LINE__,                           \
                                 []() -> ::optiling::TilingDef* { return new class_name; });
#define MCO_HOST_JOIN_(a, b) a##b
#define MCO_HOST_JOIN(a, b) MCO_HOST_JOIN_(a, b)
#define MCO_HOST_NAME_(name) MCO_HOST_JOIN(name##_, __COUNTER__)
// clang-format on

namespace mco_host {

using MakeTiling = optiling::TilingDef* (*)();
bool AddTilingClass(const char* op, const char* name, const char* file, int line, MakeTiling make);

}  // namespace mco_host

#endif  // MCO_HOST_TILING_DATA_H_
