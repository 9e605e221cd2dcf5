// SPDX-License-Identifier: Apache-2.0
// Tiling keys that stand for template arguments of a kernel: what they may be, and which of them there are.
#ifndef MCO_HOST_TEMPLATE_KEY_H_
#define MCO_HOST_TEMPLATE_KEY_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "mco_host/op_host.h"
#include "mco_host/template_names.h"

namespace mco_host {

// A parameter of the template, or one of the two things that a choice says besides: kinds of cores, a structure.
struct TemplateParameter {
  enum Kind { kType, kDtype, kFormat, kNumber, kBool, kCores, kStruct };
  Kind kind = kNumber;
  std::string name;
  int bits = 8;
  std::vector<uint64_t> values;
  std::string wrong;  // what cannot be meant, for the first key that is asked for
};

// Inputs and outputs whose dtype or format it is, in place of values: any value of the manual's.
constexpr uint64_t kOfTensor = uint64_t(1) << 32;

// Of numbers: what ASCENDC_TPL_UI_RANGE and its kind say, written out.
TemplateParameter TemplateNumber(const char* name, int bits, std::initializer_list<uint64_t> said);

using TemplateParameters = std::vector<TemplateParameter>;
struct TemplateKeys {
  std::string op;
  TemplateParameters parameters;
  std::vector<TemplateParameters> choices;
};
bool AddTemplateKeys(const char* op, const TemplateParameters& parameters,
                     const std::vector<TemplateParameters>& choices);

// The key of these arguments: places in the declared lists (of types and formats: the values), the first one lowest.
uint64_t TemplateKey(const char* op, const std::vector<uint64_t>& arguments);

template <class... A>
uint64_t TemplateKeyOf(const char* op, A... arguments) {
  return TemplateKey(op, {static_cast<uint64_t>(arguments)...});
}

}  // namespace mco_host

// clang-format off
#define ASCENDC_TPL_ARGS_DECL(op, ...)                                                                       \
  static const char* const g_mcoTemplateOp = #op;                                                            \
  static const ::mco_host::TemplateParameters g_tilingDeclareParams = {__VA_ARGS__};
#define ASCENDC_TPL_SEL(...)                                                                                 \
  static const bool g_mcoTemplateKeys __attribute__((unused)) = ::mco_host::AddTemplateKeys(                 \
      g_mcoTemplateOp, g_tilingDeclareParams,                                                                \
      std::vector<::mco_host::TemplateParameters>{__VA_ARGS__});
#define ASCENDC_TPL_ARGS_SEL(...) ::mco_host::TemplateParameters{__VA_ARGS__}

#define MCO_HOST_TEMPLATE(kind, name, ...)                                                                   \
  ::mco_host::TemplateParameter{::mco_host::TemplateParameter::kind, #name, 8, {__VA_ARGS__}, {}}
#define ASCENDC_TPL_DATATYPE_DECL(name, ...) MCO_HOST_TEMPLATE(kType, name, __VA_ARGS__)
#define ASCENDC_TPL_DATATYPE_SEL(name, ...) MCO_HOST_TEMPLATE(kType, name, __VA_ARGS__)
#define ASCENDC_TPL_DTYPE_DECL(name, ...) MCO_HOST_TEMPLATE(kDtype, name, __VA_ARGS__)
#define ASCENDC_TPL_DTYPE_SEL(name, ...) MCO_HOST_TEMPLATE(kDtype, name, __VA_ARGS__)
#define ASCENDC_TPL_FORMAT_DECL(name, ...) MCO_HOST_TEMPLATE(kFormat, name, __VA_ARGS__)
#define ASCENDC_TPL_FORMAT_SEL(name, ...) MCO_HOST_TEMPLATE(kFormat, name, __VA_ARGS__)
#define ASCENDC_TPL_UINT_DECL(name, bits, ...) ::mco_host::TemplateNumber(#name, bits, {__VA_ARGS__})
#define ASCENDC_TPL_UINT_SEL(name, ...) ::mco_host::TemplateNumber(#name, 0, {__VA_ARGS__})
#define ASCENDC_TPL_BOOL_DECL(name, ...)                                                                     \
  ::mco_host::TemplateParameter{::mco_host::TemplateParameter::kBool, #name, 1, {__VA_ARGS__}, {}}
#define ASCENDC_TPL_BOOL_SEL(name, ...)                                                                      \
  ::mco_host::TemplateParameter{::mco_host::TemplateParameter::kBool, #name, 1, {__VA_ARGS__}, {}}
#define ASCENDC_TPL_KERNEL_TYPE_SEL(cores) MCO_HOST_TEMPLATE(kCores, cores, cores)
#define ASCENDC_TPL_TILING_STRUCT_SEL(type) MCO_HOST_TEMPLATE(kStruct, type, 0)
#define ASCENDC_TPL_INPUT(i) (::mco_host::kOfTensor + (i))
#define ASCENDC_TPL_OUTPUT(i) (::mco_host::kOfTensor + (i))

#define GET_TPL_TILING_KEY(...) ::mco_host::TemplateKeyOf(g_mcoTemplateOp, __VA_ARGS__)
#define ASCENDC_TPL_SEL_PARAM(context, ...) (context)->SetTilingKey(GET_TPL_TILING_KEY(__VA_ARGS__))
// clang-format on

#endif  // MCO_HOST_TEMPLATE_KEY_H_
