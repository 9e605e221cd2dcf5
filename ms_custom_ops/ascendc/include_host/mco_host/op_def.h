// SPDX-License-Identifier: Apache-2.0
// ops::OpDef: what an op is, written down by the constructor of its class.
#ifndef MCO_HOST_OP_DEF_H_
#define MCO_HOST_OP_DEF_H_

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "mco_host/contexts.h"

namespace ops {

enum Option { IGNORE = 0, OPTIONAL = 1, REQUIRED = 2, DYNAMIC = 3, VIRTUAL = 4 };
enum class DependScope : uint32_t { ALL = 0, TILING = 1, INVALID_SCOPE = 2 };
enum class FormatCheckOption : uint32_t { DEFAULT = 0, STRICT = 1, MAX = 2 };
enum class FollowType : uint32_t { ALL = 0, DTYPE, FORMAT, SHAPE, INVALID_TYPE };
enum class ItemFindStatus { ITEM_FIND = 0, ITEM_NOEXIST = 1 };
enum class InitValueType : uint32_t { INIT_VALUE_UINT64_T = 0, INIT_VALUE_DEFAULT };
enum class ScalarType : uint32_t { UINT64 = 0, INT64, UINT32, INT32, UINT16, INT16, UINT8, INT8, FLOAT32, FLOAT16 };
enum class HcclServerType : uint32_t { AICPU = 0, AICORE, MAX };

union ScalarNum {
  uint64_t value_u64;
  int64_t value_i64;
  float value_f32;
  ScalarNum() : value_u64(0) {}
  explicit ScalarNum(uint64_t value) : value_u64(value) {}
  explicit ScalarNum(int64_t value) : value_i64(value) {}
  explicit ScalarNum(float value) : value_f32(value) {}
};
struct ScalarVar {
  ScalarType scalar_type = ScalarType::UINT64;
  ScalarNum scalar_num;
  ScalarVar() = default;
  template <typename T>
  ScalarVar(ScalarType type, T number) : scalar_type(type), scalar_num(number) {}
};

class OpParamDef {
 public:
  explicit OpParamDef(const char* name) : name(name) {}
  OpParamDef& ParamType(Option option) { return type = option, *this; }
  OpParamDef& DataType(std::vector<ge::DataType> types) { return dtypes = std::move(types), *this; }
  OpParamDef& DataTypeForBinQuery(std::vector<ge::DataType>) { return *this; }
  OpParamDef& DataTypeList(std::vector<ge::DataType> types) {
    listed = true;
    return dtypes = std::move(types), *this;
  }
  OpParamDef& Format(std::vector<ge::Format> list) { return formats = std::move(list), *this; }
  OpParamDef& FormatForBinQuery(std::vector<ge::Format>) { return *this; }
  OpParamDef& FormatList(std::vector<ge::Format> list) { return formats = std::move(list), *this; }
  OpParamDef& UnknownShapeFormat(std::vector<ge::Format>) { return *this; }
  OpParamDef& ValueDepend(Option option) { return depend = option, *this; }
  OpParamDef& ValueDepend(Option option, DependScope) { return depend = option, *this; }
  OpParamDef& AutoContiguous() { return *this; }
  OpParamDef& IgnoreContiguous() { return *this; }
  OpParamDef& Scalar() { return *this; }
  OpParamDef& ScalarList() { return *this; }
  OpParamDef& To(const ge::DataType) { return *this; }
  OpParamDef& To(const char*) { return *this; }
  OpParamDef& InitValue(uint64_t value) { return init = value, has_init = true, *this; }
  OpParamDef& InitValue(const ScalarVar& value) { return InitValue(value.scalar_num.value_u64); }
  OpParamDef& InitValue(const std::vector<ScalarVar>& values) {
    return values.empty() ? *this : InitValue(values.front());
  }
  OpParamDef& Follow(const char* other) { return follows = other, *this; }
  OpParamDef& Follow(const char* other, FollowType) { return follows = other, *this; }
  OpParamDef& OutputShapeDependOnCompute() { return depends_on_compute = true, *this; }
  OpParamDef& Version(uint32_t) { return *this; }
  OpParamDef& Comment(const char*) { return *this; }

  std::string name, follows;
  Option type = OPTIONAL, depend = IGNORE;
  std::vector<ge::DataType> dtypes;
  std::vector<ge::Format> formats;
  bool listed = false;  // every entry goes with every combination of the others
  bool has_init = false, depends_on_compute = false;
  uint64_t init = 0;
};

class OpAttrDef {
 public:
  explicit OpAttrDef(const char* name) : name(name) {}
  OpAttrDef& Version(uint32_t) { return *this; }
  OpAttrDef& AttrType(Option option) { return required = option == REQUIRED, *this; }
  OpAttrDef& Bool() { return Kind(mco_host::Attribute::kBool); }
  OpAttrDef& Bool(bool v) { return Default(mco_host::Attribute::kBool, v ? "true" : "false"); }
  OpAttrDef& Int() { return Kind(mco_host::Attribute::kInt); }
  OpAttrDef& Int(int64_t v) { return Default(mco_host::Attribute::kInt, std::to_string(v)); }
  OpAttrDef& Float() { return Kind(mco_host::Attribute::kFloat); }
  OpAttrDef& Float(float v) { return Default(mco_host::Attribute::kFloat, Number(v)); }
  OpAttrDef& String() { return Kind(mco_host::Attribute::kString); }
  OpAttrDef& String(const char* v) { return Default(mco_host::Attribute::kString, Quoted(v)); }
  OpAttrDef& ListBool() { return Kind(mco_host::Attribute::kBools); }
  OpAttrDef& ListBool(const std::vector<bool>& v) {
    return List(mco_host::Attribute::kBools, v, [](bool b) { return std::string(b ? "true" : "false"); });
  }
  OpAttrDef& ListInt() { return Kind(mco_host::Attribute::kInts); }
  OpAttrDef& ListInt(const std::vector<int64_t>& v) {
    return List(mco_host::Attribute::kInts, v, [](int64_t i) { return std::to_string(i); });
  }
  OpAttrDef& ListFloat() { return Kind(mco_host::Attribute::kFloats); }
  OpAttrDef& ListFloat(const std::vector<float>& v) { return List(mco_host::Attribute::kFloats, v, Number); }
  OpAttrDef& ListListInt() { return Kind(mco_host::Attribute::kIntLists); }
  OpAttrDef& ListListInt(const std::vector<std::vector<int64_t>>& v) {
    return List(mco_host::Attribute::kIntLists, v, [](const std::vector<int64_t>& row) {
      std::string text;
      for (int64_t i : row) text += (text.empty() ? "" : ", ") + std::to_string(i);
      return "[" + text + "]";
    });
  }
  OpAttrDef& Comment(const char*) { return *this; }

  static std::string Quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
      char code[8];
      if (static_cast<unsigned char>(c) < 0x20) {
        std::snprintf(code, sizeof(code), "\\u%04x", c);
        out += code;
      } else {
        out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
      }
    }
    return out + "\"";
  }

  std::string name;
  bool required = false;
  mco_host::Attribute::Kind kind = mco_host::Attribute::kInt;
  bool has_default = false;
  std::string default_json;

 private:
  static std::string Number(float v) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(v));
    return text[0] == 'i' || text[0] == 'n' || text[1] == 'i' ? Quoted(text) : text;
  }
  OpAttrDef& Kind(mco_host::Attribute::Kind value) { return kind = value, *this; }
  OpAttrDef& Default(mco_host::Attribute::Kind value, std::string json) {
    has_default = true;
    default_json = std::move(json);
    return Kind(value);
  }
  template <typename V, typename F>
  OpAttrDef& List(mco_host::Attribute::Kind value, const V& list, F text) {
    std::string json;
    for (const auto& item : list) json += (json.empty() ? "" : ", ") + text(item);
    return Default(value, "[" + json + "]");
  }
};

using TilingFunction = ge::graphStatus (*)(gert::TilingContext*);
using InferShapeFunction = ge::graphStatus (*)(gert::InferShapeContext*);
using InferShapeRangeFunction = ge::graphStatus (*)(gert::InferShapeRangeContext*);
using InferDataTypeFunction = ge::graphStatus (*)(gert::InferDataTypeContext*);

class OpAICoreConfig {
 public:
  OpAICoreConfig() = default;
  explicit OpAICoreConfig(const char*) {}
  OpParamDef& Input(const char* name) { return inputs_.emplace(name, OpParamDef(name)).first->second; }
  OpParamDef& Output(const char* name) { return outputs_.emplace(name, OpParamDef(name)).first->second; }
  OpAICoreConfig& DynamicCompileStaticFlag(bool) { return *this; }
  OpAICoreConfig& DynamicFormatFlag(bool) { return *this; }
  OpAICoreConfig& DynamicRankSupportFlag(bool) { return *this; }
  OpAICoreConfig& DynamicShapeSupportFlag(bool) { return *this; }
  OpAICoreConfig& NeedCheckSupportFlag(bool) { return *this; }
  OpAICoreConfig& PrecisionReduceFlag(bool) { return *this; }
  OpAICoreConfig& AsyncFlag(bool) { return *this; }
  OpAICoreConfig& RangeLimitValue(const char*) { return *this; }
  OpAICoreConfig& ExtendCfgInfo(const char*, const char*) { return *this; }
  const std::map<std::string, OpParamDef>& inputs() const { return inputs_; }
  const std::map<std::string, OpParamDef>& outputs() const { return outputs_; }

 private:
  std::map<std::string, OpParamDef> inputs_, outputs_;
};

class OpAICoreDef {
 public:
  OpAICoreDef& SetTiling(TilingFunction function) { return tiling = function, *this; }
  OpAICoreDef& SetTilingParse(ge::graphStatus (*function)(gert::TilingParseContext*)) {
    return parse = function, *this;
  }
  template <typename F>
  OpAICoreDef& SetCheckSupport(F) {
    return *this;
  }
  template <typename F>
  OpAICoreDef& SetOpSelectFormat(F) {
    return *this;
  }
  template <typename F>
  OpAICoreDef& SetOpSupportInfo(F) {
    return *this;
  }
  template <typename F>
  OpAICoreDef& SetOpSpecInfo(F) {
    return *this;
  }
  template <typename F>
  OpAICoreDef& SetParamGeneralize(F) {
    return *this;
  }
  OpAICoreDef& AddConfig(const char* soc) { return configs[soc], *this; }
  OpAICoreDef& AddConfig(const char* soc, const OpAICoreConfig& config) { return configs[soc] = config, *this; }

  TilingFunction tiling = nullptr;
  ge::graphStatus (*parse)(gert::TilingParseContext*) = nullptr;
  std::map<std::string, OpAICoreConfig> configs;
};

class OpMC2Def {
 public:
  OpMC2Def& HcclGroup(const char*) { return *this; }
  OpMC2Def& HcclGroup(const std::vector<const char*>&) { return *this; }
  OpMC2Def& HcclServerType(ops::HcclServerType, const char* = nullptr) { return *this; }
};

class OpDef {
 public:
  explicit OpDef(const char* type) : type(type) {}
  virtual ~OpDef() = default;
  OpParamDef& Input(const char* name) { return Named(inputs, name); }
  OpParamDef& Output(const char* name) { return Named(outputs, name); }
  OpAttrDef& Attr(const char* name) { return Named(attributes, name); }
  OpDef& SetInferShape(InferShapeFunction function) { return infer_shape = function, *this; }
  OpDef& SetInferShapeRange(InferShapeRangeFunction) { return *this; }
  OpDef& SetInferDataType(InferDataTypeFunction function) { return infer_data_type = function, *this; }
  OpDef& Comment(const char*) { return *this; }
  OpDef& FormatMatchMode(ops::FormatCheckOption) { return *this; }
  OpDef& EnableFallBack() { return *this; }
  OpAICoreDef& AICore() { return aicore; }
  OpMC2Def& MC2() { return mc2_; }

  std::string type;
  std::deque<OpParamDef> inputs, outputs;
  std::deque<OpAttrDef> attributes;
  InferShapeFunction infer_shape = nullptr;
  InferDataTypeFunction infer_data_type = nullptr;
  OpAICoreDef aicore;

 private:
  template <typename T>
  static T& Named(std::deque<T>& list, const char* name) {
    for (T& item : list) {
      if (item.name == name) return item;
    }
    list.emplace_back(name);
    return list.back();
  }
  OpMC2Def mc2_;
};

}  // namespace ops

#endif  // MCO_HOST_OP_DEF_H_
