// SPDX-License-Identifier: Apache-2.0
// What a project registered, as JSON.
#ifndef MCO_HOST_DESCRIBE_H_
#define MCO_HOST_DESCRIBE_H_

#include <map>
#include <memory>
#include <string>

#include "mco_host/registry.h"

namespace mco_host {

struct Op {
  MakeOp make;
  const char* file;
  int line;
  MakeInfo make_compile_info;
  mutable std::unique_ptr<ops::OpDef> definition;  // made when first asked for
  Op() = default;
  Op(MakeOp m, const char* f, int l, MakeInfo info) : make(m), file(f), line(l), make_compile_info(info) {}
};

struct TilingClass {
  std::string op, name, file;
  int line;
  MakeTiling make;
};

const ops::OpDef& Definition(const char* type, const Op& op);
ops::InferShapeFunction InferShapeOf(const char* type, const Op& op);
ops::InferDataTypeFunction InferDataTypeOf(const char* type, const Op& op);
ops::TilingFunction TilingOf(const char* type, const Op& op);

std::string Describe(const std::map<std::string, Op>& ops, const std::map<std::string, HostFunctions>& functions,
                     const std::vector<TilingClass>& classes);
std::string DescribeTemplateKeys();  // of ASCENDC_TPL_ARGS_DECL

}  // namespace mco_host

#endif  // MCO_HOST_DESCRIBE_H_
