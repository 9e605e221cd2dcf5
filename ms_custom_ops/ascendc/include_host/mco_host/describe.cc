// SPDX-License-Identifier: Apache-2.0
#include "mco_host/describe.h"

#include "mco_host/guard.h"

namespace mco_host {
namespace {

using ops::OpAttrDef;

std::string Text(const std::string& text) { return OpAttrDef::Quoted(text); }
std::string Pair(const char* key, const std::string& json) { return Text(key) + ": " + json; }
std::string Flag(bool value) { return value ? "true" : "false"; }

template <typename List, typename F>
std::string Array(const List& list, F json) {
  std::string text;
  for (const auto& item : list) text += (text.empty() ? "" : ", ") + json(item);
  return "[" + text + "]";
}

std::string Param(const ops::OpParamDef& param) {
  auto number = [](auto value) { return std::to_string(static_cast<int>(value)); };
  return "{" + Pair("name", Text(param.name)) + ", " + Pair("option", number(param.type)) + ", " +
         Pair("depend", number(param.depend)) + ", " + Pair("dtypes", Array(param.dtypes, number)) + ", " +
         Pair("formats", Array(param.formats, number)) + ", " + Pair("listed", Flag(param.listed)) + ", " +
         Pair("follows", Text(param.follows)) + ", " + Pair("has_init", Flag(param.has_init)) + ", " +
         Pair("init", std::to_string(param.init)) + ", " + Pair("depends_on_compute", Flag(param.depends_on_compute)) +
         "}";
}

std::string Attr(const OpAttrDef& attr) {
  return "{" + Pair("name", Text(attr.name)) + ", " + Pair("required", Flag(attr.required)) + ", " +
         Pair("kind", std::to_string(static_cast<int>(attr.kind))) + ", " +
         Pair("default", attr.has_default ? attr.default_json : "null") + "}";
}

std::string Configs(const ops::OpAICoreDef& aicore) {
  auto params = [](const auto& map) { return Array(map, [](const auto& entry) { return Param(entry.second); }); };
  std::string text;
  for (const auto& entry : aicore.configs) {
    const std::string config = "{" + Pair("inputs", params(entry.second.inputs())) + ", " +
                               Pair("outputs", params(entry.second.outputs())) + "}";
    text += (text.empty() ? "" : ", ") + Pair(entry.first.c_str(), config);
  }
  return "{" + text + "}";
}

std::string Class(const optiling::TilingDef& tiling) {
  auto field = [&](const optiling::TilingDef::Field& f) {
    std::string nested = "null";
    if (f.nested) {
      nested = Class(*reinterpret_cast<const optiling::TilingDef*>(reinterpret_cast<const char*>(&tiling) + f.nested));
    }
    return "{" + Pair("type", Text(f.type)) + ", " + Pair("name", Text(f.name)) + ", " +
           Pair("offset", std::to_string(f.offset)) + ", " + Pair("bytes", std::to_string(f.bytes)) + ", " +
           Pair("count", std::to_string(f.count)) + ", " + Pair("nested", nested) + "}";
  };
  return "{" + Pair("name", Text(tiling.GetTilingClassName())) + ", " +
         Pair("size", std::to_string(tiling.GetDataSize())) + ", " + Pair("fields", Array(tiling.fields(), field)) +
         "}";
}

template <typename F>
std::string At(F function) {
  return std::to_string(OffsetOf(reinterpret_cast<const void*>(function)));
}

HostFunctions Registered(const std::map<std::string, HostFunctions>& functions, const std::string& type) {
  auto found = functions.find(type);
  return found == functions.end() ? HostFunctions() : found->second;
}

}  // namespace

ops::InferShapeFunction InferShapeOf(const char* type, const Op& op) {
  const auto registered = FunctionsOf(type).infer_shape;
  return registered ? registered : Definition(type, op).infer_shape;
}
ops::InferDataTypeFunction InferDataTypeOf(const char* type, const Op& op) {
  const auto registered = FunctionsOf(type).infer_data_type;
  return registered ? registered : Definition(type, op).infer_data_type;
}
ops::TilingFunction TilingOf(const char* type, const Op& op) {
  const auto registered = FunctionsOf(type).tiling;
  return registered ? registered : const_cast<ops::OpDef&>(Definition(type, op)).AICore().tiling;
}

std::string Describe(const std::map<std::string, Op>& ops, const std::map<std::string, HostFunctions>& functions,
                     const std::vector<TilingClass>& classes) {
  auto one = [&](const auto& entry) {
    const char* type = entry.first.c_str();
    const ops::OpDef& op = Definition(type, entry.second);
    const HostFunctions registered = Registered(functions, entry.first);
    return "{" + Pair("name", Text(type)) + ", " + Pair("file", Text(entry.second.file)) + ", " +
           Pair("line", std::to_string(entry.second.line)) + ", " + Pair("inputs", Array(op.inputs, Param)) + ", " +
           Pair("outputs", Array(op.outputs, Param)) + ", " + Pair("attributes", Array(op.attributes, Attr)) + ", " +
           Pair("configs", Configs(op.aicore)) + ", " +
           Pair("depends", Array(registered.depends, [](size_t i) { return std::to_string(i); })) + ", " +
           Pair("same_as_first", Flag(registered.same_as_first)) + ", " +
           Pair("infer_shape", At(InferShapeOf(type, entry.second))) + ", " +
           Pair("infer_data_type", At(InferDataTypeOf(type, entry.second))) + ", " +
           Pair("tiling", At(TilingOf(type, entry.second))) + "}";
  };
  auto structure = [](const TilingClass& c) {
    const std::unique_ptr<optiling::TilingDef> made(c.make());
    return "{" + Pair("op", Text(c.op)) + ", " + Pair("file", Text(c.file)) + ", " +
           Pair("line", std::to_string(c.line)) + ", " + Pair("layout", Class(*made)) + "}";
  };
  return "{" + Pair("ops", Array(ops, one)) + ", " + Pair("classes", Array(classes, structure)) + ", " +
         Pair("templates", DescribeTemplateKeys()) + "}";
}

}  // namespace mco_host
