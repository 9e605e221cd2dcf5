// SPDX-License-Identifier: Apache-2.0
// How the sources of a project tell what they have: op definitions and host functions, found by the op's name.
#ifndef MCO_HOST_REGISTRY_H_
#define MCO_HOST_REGISTRY_H_

#include <initializer_list>
#include <memory>

#include "mco_host/op_def.h"
#include "mco_host/tiling_data.h"

namespace mco_host {

using MakeOp = ops::OpDef* (*)(const char* type);
using MakeInfo = std::shared_ptr<void> (*)();
bool AddOp(const char* type, MakeOp make, const char* file, int line, MakeInfo make_compile_info);

// The compile info that OP_ADD(Op, Info) names.
template <typename... Info>
struct InfoOf {
  static constexpr MakeInfo kMake = nullptr;
};
template <typename Info>
struct InfoOf<Info> {
  static std::shared_ptr<void> Make() { return std::make_shared<Info>(); }
  static constexpr MakeInfo kMake = Make;
};

// The functions of one op that a source registered apart from its definition.
struct HostFunctions {
  ops::InferShapeFunction infer_shape = nullptr;
  ops::InferDataTypeFunction infer_data_type = nullptr;
  ops::TilingFunction tiling = nullptr;
  ge::graphStatus (*parse)(gert::TilingParseContext*) = nullptr;
  std::shared_ptr<void> (*make_compile_info)() = nullptr;
  std::vector<size_t> depends;  // inputs of the definition whose values they read
  bool same_as_first = false;   // outputs have the data type of the first input
};
HostFunctions& FunctionsOf(const char* type);

}  // namespace mco_host

namespace gert {

class OpImplRegisterV2 {
 public:
  explicit OpImplRegisterV2(const char* type) : functions_(&mco_host::FunctionsOf(type)) {}
  OpImplRegisterV2& InferShape(ops::InferShapeFunction function) { return functions_->infer_shape = function, *this; }
  OpImplRegisterV2& InferShapeRange(ops::InferShapeRangeFunction) { return *this; }
  OpImplRegisterV2& InferDataType(ops::InferDataTypeFunction function) {
    return functions_->infer_data_type = function, *this;
  }
  OpImplRegisterV2& InferOutDataTypeSameWithFirstInput() { return functions_->same_as_first = true, *this; }
  OpImplRegisterV2& Tiling(ops::TilingFunction function, size_t = 2048) { return functions_->tiling = function, *this; }
  template <typename T>
  OpImplRegisterV2& TilingParse(ge::graphStatus (*function)(gert::TilingParseContext*)) {
    functions_->parse = function;
    functions_->make_compile_info = [] { return std::shared_ptr<void>(std::make_shared<T>()); };
    return *this;
  }
  OpImplRegisterV2& InputsDataDependency(std::initializer_list<int32_t> inputs) {
    functions_->depends.assign(inputs.begin(), inputs.end());
    return *this;
  }
  OpImplRegisterV2& TilingInputsDataDependency(std::initializer_list<int32_t> inputs) {
    return InputsDataDependency(inputs);
  }
  template <typename... T>
  OpImplRegisterV2& PrivateAttr(T&&...) {
    return *this;
  }

 private:
  mco_host::HostFunctions* functions_;
};
using OpImplRegister = OpImplRegisterV2;

}  // namespace gert

#define IMPL_OP(op_type)                                                                                \
  static const ::gert::OpImplRegisterV2 MCO_HOST_NAME_(mco_op_impl_##op_type) __attribute__((unused)) = \
      ::gert::OpImplRegisterV2(#op_type)
#define IMPL_OP_OPTILING(op_type) IMPL_OP(op_type)
#define IMPL_OP_INFERSHAPE(op_type) IMPL_OP(op_type)
#define IMPL_OP_DEFAULT() \
  static_assert(false, "IMPL_OP_DEFAULT is not there; accepted: IMPL_OP, IMPL_OP_OPTILING, IMPL_OP_INFERSHAPE")

#define OP_ADD(op_type, ...)                                                                             \
  static const bool MCO_HOST_NAME_(mco_op_##op_type) __attribute__((unused)) = ::mco_host::AddOp(        \
      #op_type, [](const char* type) -> ::ops::OpDef* { return new op_type(type); }, __FILE__, __LINE__, \
      ::mco_host::InfoOf<__VA_ARGS__>::kMake);

#endif  // MCO_HOST_REGISTRY_H_
