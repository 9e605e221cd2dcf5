// SPDX-License-Identifier: Apache-2.0
// Data types, formats and status codes of namespace ge. Values are those of the public manual (DataType, Format).
#ifndef MCO_HOST_TYPES_H_
#define MCO_HOST_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace ge {

using std::string;  // sources that use the namespace rely on it

using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0;
constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;
constexpr graphStatus GRAPH_NOT_CHANGED = 1343242304;
constexpr graphStatus GRAPH_PARAM_INVALID = 50331649;

enum DataType {
  DT_FLOAT = 0,
  DT_FLOAT16 = 1,
  DT_INT8 = 2,
  DT_INT32 = 3,
  DT_UINT8 = 4,
  DT_INT16 = 6,
  DT_UINT16 = 7,
  DT_UINT32 = 8,
  DT_INT64 = 9,
  DT_UINT64 = 10,
  DT_DOUBLE = 11,
  DT_BOOL = 12,
  DT_STRING = 13,
  DT_DUAL_SUB_INT8 = 14,
  DT_DUAL_SUB_UINT8 = 15,
  DT_COMPLEX64 = 16,
  DT_COMPLEX128 = 17,
  DT_QINT8 = 18,
  DT_QINT16 = 19,
  DT_QINT32 = 20,
  DT_QUINT8 = 21,
  DT_QUINT16 = 22,
  DT_RESOURCE = 23,
  DT_STRING_REF = 24,
  DT_DUAL = 25,
  DT_VARIANT = 26,
  DT_BF16 = 27,
  DT_UNDEFINED = 28,
  DT_INT4 = 29,
  DT_UINT1 = 30,
  DT_INT2 = 31,
  DT_UINT2 = 32,
  DT_COMPLEX32 = 33,
  DT_HIFLOAT8 = 34,
  DT_FLOAT8_E5M2 = 35,
  DT_FLOAT8_E4M3FN = 36,
  DT_FLOAT8_E8M0 = 37,
  DT_FLOAT6_E3M2 = 38,
  DT_FLOAT6_E2M3 = 39,
  DT_FLOAT4_E2M1 = 40,
  DT_FLOAT4_E1M2 = 41,
  DT_MAX = 42
};

enum Format {
  FORMAT_NCHW = 0,
  FORMAT_NHWC = 1,
  FORMAT_ND = 2,
  FORMAT_NC1HWC0 = 3,
  FORMAT_FRACTAL_Z = 4,
  FORMAT_NC1C0HWPAD = 5,
  FORMAT_NHWC1C0 = 6,
  FORMAT_FSR_NCHW = 7,
  FORMAT_C1HWNC0 = 9,
  FORMAT_NC1HWC0_C04 = 12,
  FORMAT_FRACTAL_Z_C04 = 13,
  FORMAT_CHWN = 14,
  FORMAT_HWCN = 16,
  FORMAT_NC1KHKWHWC0 = 17,
  FORMAT_C1HWNCoC0 = 25,
  FORMAT_MD = 26,
  FORMAT_NDHWC = 27,
  FORMAT_FRACTAL_ZZ = 28,
  FORMAT_FRACTAL_NZ = 29,
  FORMAT_NCDHW = 30,
  FORMAT_DHWCN = 31,
  FORMAT_NDC1HWC0 = 32,
  FORMAT_FRACTAL_Z_3D = 33,
  FORMAT_CN = 34,
  FORMAT_NC = 35,
  FORMAT_DHWNC = 36,
  FORMAT_FRACTAL_Z_3D_TRANSPOSE = 37,
  FORMAT_FRACTAL_ZN_LSTM = 38,
  FORMAT_FRACTAL_Z_G = 39,
  FORMAT_RESERVED = 40,
  FORMAT_ALL = 41,
  FORMAT_NULL = 42,
  FORMAT_ND_RNN_BIAS = 43,
  FORMAT_FRACTAL_ZN_RNN = 44,
  FORMAT_NCL = 47,
  FORMAT_MAX = 0xff
};

// One row per type: its name, the name of the manual, and its bytes (0: less than a byte, or no plain numbers).
struct DataTypeRow {
  DataType type;
  const char* name;
  int bytes;
};
inline const DataTypeRow kDataTypeRows[] = {{DT_FLOAT, "DT_FLOAT", 4},
                                            {DT_FLOAT16, "DT_FLOAT16", 2},
                                            {DT_INT8, "DT_INT8", 1},
                                            {DT_INT32, "DT_INT32", 4},
                                            {DT_UINT8, "DT_UINT8", 1},
                                            {DT_INT16, "DT_INT16", 2},
                                            {DT_UINT16, "DT_UINT16", 2},
                                            {DT_UINT32, "DT_UINT32", 4},
                                            {DT_INT64, "DT_INT64", 8},
                                            {DT_UINT64, "DT_UINT64", 8},
                                            {DT_DOUBLE, "DT_DOUBLE", 8},
                                            {DT_BOOL, "DT_BOOL", 1},
                                            {DT_COMPLEX64, "DT_COMPLEX64", 8},
                                            {DT_COMPLEX128, "DT_COMPLEX128", 16},
                                            {DT_BF16, "DT_BF16", 2},
                                            {DT_COMPLEX32, "DT_COMPLEX32", 4},
                                            {DT_HIFLOAT8, "DT_HIFLOAT8", 1},
                                            {DT_FLOAT8_E5M2, "DT_FLOAT8_E5M2", 1},
                                            {DT_FLOAT8_E4M3FN, "DT_FLOAT8_E4M3FN", 1},
                                            {DT_FLOAT8_E8M0, "DT_FLOAT8_E8M0", 1}};

constexpr int kDataTypeSizeBitOffset = 1000;  // sizes below a byte are this plus the number of bits

inline int GetSizeByDataType(DataType type) {
  if (type == DT_INT4) return kDataTypeSizeBitOffset + 4;
  if (type == DT_INT2 || type == DT_UINT2) return kDataTypeSizeBitOffset + 2;
  if (type == DT_UINT1) return kDataTypeSizeBitOffset + 1;
  for (const DataTypeRow& row : kDataTypeRows) {
    if (row.type == type) return row.bytes;
  }
  return -1;
}

inline int64_t GetSizeInBytes(int64_t elements, DataType type) {
  const int size = GetSizeByDataType(type);
  if (elements < 0 || size <= 0) return -1;
  if (size > kDataTypeSizeBitOffset) return (elements * (size - kDataTypeSizeBitOffset) + 7) / 8;
  return elements * size;
}

inline Format GetPrimaryFormat(int32_t format) { return static_cast<Format>(format & 0xff); }

class AscendString {
 public:
  AscendString() = default;
  AscendString(const char* text) : text_(text ? text : "") {}
  AscendString(const char* text, size_t length) : text_(text ? std::string(text, length) : std::string()) {}
  const char* GetString() const { return text_.c_str(); }
  size_t GetLength() const { return text_.size(); }
  size_t Find(const AscendString& other) const { return text_.find(other.text_); }
  bool operator<(const AscendString& other) const { return text_ < other.text_; }
  bool operator>(const AscendString& other) const { return text_ > other.text_; }
  bool operator==(const AscendString& other) const { return text_ == other.text_; }
  bool operator!=(const AscendString& other) const { return text_ != other.text_; }
  bool operator==(const char* other) const { return other && text_ == other; }
  bool operator!=(const char* other) const { return !(*this == other); }

 private:
  std::string text_;
};

class Operator;  // of graphs, which are not there: functions that take one are never called

class TypeUtils {
 public:
  static std::string DataTypeToSerialString(DataType type) {
    for (const DataTypeRow& row : kDataTypeRows) {
      if (row.type == type) return row.name;
    }
    return "UNDEFINED";
  }
  static AscendString DataTypeToAscendString(const DataType& type) { return DataTypeToSerialString(type).c_str(); }
  // Bytes of an element; false for types without a size in whole bytes, whose length stays what it was.
  static bool GetDataTypeLength(DataType type, uint32_t& length) {
    const int size = GetSizeByDataType(type);
    if (size <= 0 || size > kDataTypeSizeBitOffset) return false;
    length = static_cast<uint32_t>(size);
    return true;
  }
  static std::string FormatToSerialString(Format format);
  static AscendString FormatToAscendString(const Format& format) { return FormatToSerialString(format).c_str(); }
};

inline std::string TypeUtils::FormatToSerialString(Format format) {
  struct Row {
    Format format;
    const char* name;
  };
  static const Row rows[] = {
      {FORMAT_NCHW, "NCHW"},       {FORMAT_NHWC, "NHWC"},           {FORMAT_ND, "ND"},
      {FORMAT_NC1HWC0, "NC1HWC0"}, {FORMAT_FRACTAL_Z, "FRACTAL_Z"}, {FORMAT_FRACTAL_NZ, "FRACTAL_NZ"},
      {FORMAT_NCDHW, "NCDHW"},     {FORMAT_NDC1HWC0, "NDC1HWC0"}};
  for (const Row& row : rows) {
    if (row.format == format) return row.name;
  }
  return "RESERVED";
}

}  // namespace ge

namespace AscendC {}  // namespace AscendC

#endif  // MCO_HOST_TYPES_H_
