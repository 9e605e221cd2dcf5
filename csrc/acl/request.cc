// SPDX-License-Identifier: Apache-2.0
// The text of a call: the question to Python and the key of its plan (ms_custom_ops/aclnn/plan.py).
#include "request.h"

#include <cmath>
#include <cstring>

namespace mco_acl {
namespace {

constexpr size_t kMostText = 256;

void add_sizes(std::string* out, const std::vector<int64_t>& sizes) {
  *out += '[';
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i) *out += ',';
    *out += std::to_string(sizes[i]);
  }
  *out += ']';
}

void add_text(std::string* out, const Op& op, const Param& param, const char* given) {
  if (!given) {
    *out += '-';
    return;
  }
  const size_t size = strnlen(given, kMostText + 1);
  if (size > kMostText) {
    refuse(ACLNN_ERR_PARAM_INVALID,
           "161002 (invalid parameter): %s: %s is longer than %zu bytes; accepted: a short text", op.name, param.name,
           kMostText);
  }
  *out += '"';
  for (size_t i = 0; i < size; ++i) {
    const unsigned char c = static_cast<unsigned char>(given[i]);
    const bool plain_letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
    *out += plain_letter ? std::string(1, char(c)) : text("%%%02X", c);
  }
}

// Bytes of a path in a JSON text.
void add_quoted(std::string* out, const char* given) {
  for (; *given; ++given) {
    const unsigned char c = static_cast<unsigned char>(*given);
    if (c < 0x20 || c == '"' || c == '\\' || c == '|') {
      *out += text("\\u%04x", c);
    } else {
      *out += char(c);
    }
  }
}

template <class T>
std::shared_ptr<T> array_argument(const Op& op, const Param& param, const void* handle, Kind kind, const char* name) {
  auto found = find<T>(handle, kind);
  if (!found) {
    refuse(ACLNN_ERR_PARAM_INVALID,
           "161002 (invalid parameter): %s: %s is destroyed, or no acl%s; accepted: one of aclCreate%s", op.name,
           param.name, name, name);
  }
  return found;
}

void add_floats(std::string* out, const std::vector<float>& values) {
  *out += '<';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) *out += ',';
    *out += std::isnan(values[i]) ? "nan" : text("%a", double(values[i]));
  }
}

void add_bools(std::string* out, const std::vector<unsigned char>& values) {
  *out += '!';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) *out += ',';
    *out += values[i] ? '1' : '0';
  }
}

void add_tensor(std::string* out, const View& view) {
  *out += dtype_name(view.dtype);
  add_sizes(out, view.dims);
  if (!view.contiguous()) *out += ":s";
}

}  // namespace

std::shared_ptr<Tensor> tensor_argument(const Op& op, const Param& param, const void* handle) {
  if (!handle) return nullptr;
  auto tensor = find<Tensor>(handle, Kind::kTensor);
  if (!tensor) {
    refuse(ACLNN_ERR_PARAM_INVALID,
           "161002 (invalid parameter): %s: %s is destroyed, or no tensor; accepted: a tensor of "
           "aclCreateTensor",
           op.name, param.name);
  }
  return tensor;
}

void check_nulls(const Op& op, const Argument* arguments) {
  for (int i = 0; i < op.count; ++i) {
    const Param& param = op.params[i];
    if (!is_pointer(param.type) || param.optional || arguments[i].handle) continue;
    const char* accepted = param.type == Type::kText     ? "a text"
                           : param.type == Type::kInts   ? "an aclIntArray"
                           : param.type == Type::kFloats ? "an aclFloatArray"
                           : param.type == Type::kBools  ? "an aclBoolArray"
                                                         : "a tensor";
    refuse(ACLNN_ERR_PARAM_NULLPTR, "161001 (null pointer): %s: %s is null; accepted: %s", op.name, param.name,
           accepted);
  }
}

std::string request_of(const Op& op, const Argument* arguments, std::vector<View>* views) {
  const std::string& soc = soc_name();
  for (const char c : soc) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') {
      refuse(ACLNN_ERR_RUNTIME_ERROR,
             "361001 (runtime): %s: MS_CUSTOM_OPS_SOC is %s; accepted: a chip such as Ascend910B1", op.name,
             soc.c_str());
    }
  }
  std::string out;
  out.reserve(512);
  out += "{\"aclnn\":1,\"op\":\"aclnn_";
  out += op.op;
  out += "\",\"soc\":\"" + soc + "\"";
  if (*op.project) {
    out += ",\"project\":\"";
    add_quoted(&out, op.project);
    out += '"';
  }
  out += "}|";
  const bool deterministic = deterministic_asked();
  for (int i = 0; i < op.count; ++i) {
    const Param& param = op.params[i];
    const Argument& given = arguments[i];
    if (i) out += param.in_list == InList::kNext ? '&' : ';';
    if (param.in_list == InList::kFirst) out += '{';
    switch (param.type) {
      case Type::kInput:
      case Type::kOutput: {
        const auto tensor = tensor_argument(op, param, given.handle);
        if (!tensor) {
          out += '-';
          break;
        }
        View& view = (*views)[size_t(i)];
        view = tensor->view;
        if (!plain(view.format)) {
          refuse(ACLNN_ERR_PARAM_INVALID, "161002 (invalid parameter): %s: format of %s is %s; accepted: ND", op.name,
                 param.name, format_name(view.format).c_str());
        }
        if (param.type == Type::kOutput && view.overlaps()) {
          refuse(ACLNN_ERR_PARAM_INVALID,
                 "161002 (invalid parameter): %s: %s is a view whose elements overlap; accepted: "
                 "an output whose elements have places of their own",
                 op.name, param.name);
        }
        add_tensor(&out, view);
        break;
      }
      case Type::kInputs:
      case Type::kOutputs:
        refuse(ACLNN_ERR_INNER, "561000: %s: %s is a list that was not taken apart", op.name, param.name);
      case Type::kInts: {
        if (!given.handle) {
          out += '-';
          break;
        }
        add_sizes(&out, array_argument<IntArray>(op, param, given.handle, Kind::kIntArray, "IntArray")->values);
        break;
      }
      case Type::kFloats:
        if (!given.handle) {
          out += '-';
        } else {
          const auto array = array_argument<FloatArray>(op, param, given.handle, Kind::kFloatArray, "FloatArray");
          add_floats(&out, array->values);
        }
        break;
      case Type::kBools:
        if (!given.handle) {
          out += '-';
        } else {
          const auto array = array_argument<BoolArray>(op, param, given.handle, Kind::kBoolArray, "BoolArray");
          add_bools(&out, array->values);
        }
        break;
      case Type::kInt:
        out += "=" + std::to_string(given.i);
        break;
      case Type::kFloat:
        out += std::isnan(given.f) ? "~nan" : text("~%a", given.f);
        break;
      case Type::kBool:
        out += given.i || (deterministic && !std::strcmp(param.name, "deterministic")) ? "?1" : "?0";
        break;
      case Type::kText:
        add_text(&out, op, param, static_cast<const char*>(given.handle));
        break;
    }
  }
  return out;
}

}  // namespace mco_acl
