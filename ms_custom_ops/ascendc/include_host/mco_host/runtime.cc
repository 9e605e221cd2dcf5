// SPDX-License-Identifier: Apache-2.0
// The registries of a project and the C interface that asks them. Linked with the objects of its op_host.
#include <dlfcn.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "mco_host/api.h"
#include "mco_host/describe.h"
#include "mco_host/guard.h"
#include "mco_host/registry.h"

struct mco_host_call {
  mco_host::Call call;
  const mco_host::Op* op = nullptr;
  std::map<int, size_t> next_input;
};

namespace mco_host {
namespace {

constexpr size_t kTilingCapacity = 64 * 1024;  // bytes a tiling function may write
constexpr size_t kMaxWorkspaces = 64;

std::map<std::string, Op>& Ops() {
  static auto* ops = new std::map<std::string, Op>;
  return *ops;
}
std::map<std::string, HostFunctions>& Functions() {
  static auto* functions = new std::map<std::string, HostFunctions>;
  return *functions;
}
std::vector<TilingClass>& Classes() {
  static auto* classes = new std::vector<TilingClass>;
  return *classes;
}

const Op* Find(const char* type) {
  auto found = Ops().find(type);
  return found == Ops().end() ? nullptr : &found->second;
}

template <typename F>
const void* Address(F function) {
  return reinterpret_cast<const void*>(function);
}

Attribute* NewAttribute(mco_host_call* call, Attribute::Kind kind) {
  call->call.attributes.emplace_back();
  call->call.attributes.back().kind = kind;
  return &call->call.attributes.back();
}

template <typename T>
int NewList(mco_host_call* call, Attribute::Kind kind, size_t n, const T* values) {
  Attribute* attribute = NewAttribute(call, kind);
  attribute->list = gert::ContinuousVector::Create<T>(n);
  auto* list = reinterpret_cast<gert::ContinuousVector*>(attribute->list.get());
  list->SetSize(n);
  if (n) std::memcpy(list->MutableData(), values, n * sizeof(T));
  return 0;
}

TensorOfCall NewTensor(int dtype, int format, int ndim, const int64_t* dims, const void* data) {
  gert::Shape shape;
  for (int i = 0; i < ndim; i++) shape.AppendDim(dims[i]);
  const auto type = static_cast<ge::DataType>(dtype);
  const auto layout = static_cast<ge::Format>(format);
  TensorOfCall made;
  made.tensor = gert::Tensor({shape, shape}, {layout, layout}, type);
  made.tensor.SetData(data);
  made.desc.SetDataType(type);
  made.desc.SetStorageFormat(layout);
  made.desc.SetOriginFormat(layout);
  return made;
}

void Append(std::deque<TensorOfCall>* list, std::vector<Instances>* map, int ir, TensorOfCall tensor) {
  Instances& at = (*map)[static_cast<size_t>(ir)];
  if (!at.count) at.first = list->size();
  at.count++;
  list->push_back(std::move(tensor));
}

uint32_t Tile(mco_host_call* call, const HostFunctions& functions, ops::TilingFunction tiling) {
  Call& c = call->call;
  for (auto& output : c.outputs) output.tensor.MutableStorageShape() = output.tensor.GetOriginShape();
  c.tiling.assign(kTilingCapacity, 0);
  c.tiling_size = 0;
  c.workspaces.clear();
  c.block_dim = 0;
  c.tiling_key = 0;
  const auto make = functions.make_compile_info ? functions.make_compile_info : call->op->make_compile_info;
  const auto parse =
      functions.parse ? functions.parse : const_cast<ops::OpDef&>(Definition(c.op.c_str(), *call->op)).AICore().parse;
  c.compile_info = make ? make() : nullptr;
  if (parse) {
    gert::TilingParseContext context(&c);
    if (parse(&context) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
  }
  gert::TilingContext context(&c);
  return tiling(&context);
}

}  // namespace

bool AddOp(const char* type, MakeOp make, const char* file, int line, MakeInfo make_compile_info) {
  Ops()[type] = {make, file, line, make_compile_info};
  return true;
}

HostFunctions& FunctionsOf(const char* type) { return Functions()[type]; }

bool AddTilingClass(const char* op, const char* name, const char* file, int line, MakeTiling make) {
  for (const TilingClass& known : Classes()) {
    if (known.op == op && known.name == name) return true;
  }
  Classes().push_back({op, name, file, line, make});
  return true;
}

const ops::OpDef& Definition(const char* type, const Op& op) {
  if (!op.definition) op.definition.reset(op.make(type));
  return *op.definition;
}

}  // namespace mco_host

namespace gert {

const Range<Shape>* InferShapeRangeContext::GetInputShapeRange(size_t) const {
  throw std::logic_error("ranges of shapes belong to graphs of unknown shapes, which are not there");
}
Range<Shape>* InferShapeRangeContext::GetOutputShapeRange(size_t) {
  throw std::logic_error("ranges of shapes belong to graphs of unknown shapes, which are not there");
}

}  // namespace gert

using mco_host::Attribute;
using mco_host::HostFunctions;

extern "C" {

const char* mco_host_describe(mco_host_failure* failure) {
  static std::string text;
  text.clear();
  const int failed = mco_host::Guarded(
      [] {
        text = mco_host::Describe(mco_host::Ops(), mco_host::Functions(), mco_host::Classes());
        return ge::GRAPH_SUCCESS;
      },
      nullptr, failure);
  return failed ? nullptr : text.c_str();
}

mco_host_call* mco_host_new(const char* type, const char* soc) {
  const mco_host::Op* op = mco_host::Find(type);
  const mco_host::Chip* chip = mco_host::FindChip(soc);
  if (!op || !chip) return nullptr;
  auto* call = new mco_host_call;
  call->op = op;
  call->call.op = type;
  call->call.chip = *chip;
  const ops::OpDef& definition = mco_host::Definition(type, *op);
  call->call.input_map.resize(definition.inputs.size());
  call->call.output_map.resize(definition.outputs.size());
  return call;
}

void mco_host_free(mco_host_call* call) { delete call; }

int mco_host_input(mco_host_call* call, int ir, int dtype, int format, int ndim, const int64_t* dims,
                   const void* data) {
  mco_host::Append(&call->call.inputs, &call->call.input_map, ir, mco_host::NewTensor(dtype, format, ndim, dims, data));
  return 0;
}
int mco_host_output(mco_host_call* call, int ir, int dtype, int format, int ndim, const int64_t* dims) {
  mco_host::Append(&call->call.outputs, &call->call.output_map, ir,
                   mco_host::NewTensor(dtype, format, ndim, dims, nullptr));
  return 0;
}
int mco_host_data(mco_host_call* call, int instance, const void* data) {
  call->call.inputs[static_cast<size_t>(instance)].tensor.SetData(data);
  return 0;
}

int mco_host_attr_int(mco_host_call* call, int64_t value) {
  return mco_host::NewAttribute(call, Attribute::kInt)->integer = value, 0;
}
int mco_host_attr_float(mco_host_call* call, float value) {
  return mco_host::NewAttribute(call, Attribute::kFloat)->real = value, 0;
}
int mco_host_attr_bool(mco_host_call* call, int value) {
  return mco_host::NewAttribute(call, Attribute::kBool)->boolean = value != 0, 0;
}
int mco_host_attr_string(mco_host_call* call, const char* value) {
  return mco_host::NewAttribute(call, Attribute::kString)->text = value, 0;
}
int mco_host_attr_ints(mco_host_call* call, size_t n, const int64_t* values) {
  return mco_host::NewList(call, Attribute::kInts, n, values);
}
int mco_host_attr_floats(mco_host_call* call, size_t n, const float* values) {
  return mco_host::NewList(call, Attribute::kFloats, n, values);
}
int mco_host_attr_bools(mco_host_call* call, size_t n, const uint8_t* values) {
  return mco_host::NewList(call, Attribute::kBools, n, values);
}
int mco_host_attr_int_lists(mco_host_call* call, size_t n, const size_t* lengths, const int64_t* values) {
  Attribute* attribute = mco_host::NewAttribute(call, Attribute::kIntLists);
  for (size_t i = 0; i < n; values += lengths[i], i++) {
    auto row = gert::ContinuousVector::Create<int64_t>(lengths[i]);
    auto* list = reinterpret_cast<gert::ContinuousVector*>(row.get());
    list->SetSize(lengths[i]);
    if (lengths[i]) std::memcpy(list->MutableData(), values, lengths[i] * sizeof(int64_t));
    attribute->lists.Add(std::move(row));
  }
  return 0;
}

int mco_host_infer_shape(mco_host_call* call, mco_host_failure* failure) {
  const auto function = mco_host::InferShapeOf(call->call.op.c_str(), *call->op);
  if (mco_host::Guarded(
          [&] {
            gert::InferShapeContext context(&call->call);
            return function ? function(&context) : ge::GRAPH_FAILED;
          },
          mco_host::Address(function), failure)) {
    return 1;
  }
  for (size_t i = 0; i < call->call.outputs.size(); i++) {
    const gert::Shape& shape = call->call.outputs[i].tensor.GetOriginShape();
    if (!shape.Beyond()) continue;
    failure->kind = 4;
    std::snprintf(
        failure->text, sizeof(failure->text),
        "output %d with a size for dim %d of %d; accepted: SetDimNum, AppendDim, or out_shapes=[...] in the call",
        static_cast<int>(i), static_cast<int>(shape.Beyond() - 1), static_cast<int>(shape.GetDimNum()));
    return 1;
  }
  return 0;
}

int mco_host_infer_dtype(mco_host_call* call, mco_host_failure* failure) {
  const char* type = call->call.op.c_str();
  const auto function = mco_host::InferDataTypeOf(type, *call->op);
  return mco_host::Guarded(
      [&] {
        gert::InferDataTypeContext context(&call->call);
        if (function) return function(&context);
        if (!mco_host::FunctionsOf(type).same_as_first) return ge::GRAPH_FAILED;
        for (size_t i = 0; i < call->call.outputs.size(); i++) {
          context.SetOutputDataType(i, context.GetInputDataType(0));
        }
        return ge::GRAPH_SUCCESS;
      },
      mco_host::Address(function), failure);
}

int mco_host_tile(mco_host_call* call, mco_host_tiling* tiling, mco_host_failure* failure) {
  const char* type = call->call.op.c_str();
  const HostFunctions& functions = mco_host::FunctionsOf(type);
  const auto function = mco_host::TilingOf(type, *call->op);
  const int failed =
      mco_host::Guarded([&] { return function ? mco_host::Tile(call, functions, function) : ge::GRAPH_FAILED; },
                        mco_host::Address(function), failure);
  if (failed) return 1;
  const mco_host::Call& c = call->call;
  std::string wrong;
  if (c.tiling_size > c.tiling.size()) {
    wrong = "tiling data of " + std::to_string(c.tiling_size) + " bytes; accepted: at most " +
            std::to_string(c.tiling.size());
  } else if (c.workspaces.size() > mco_host::kMaxWorkspaces) {
    wrong = std::to_string(c.workspaces.size()) + " workspaces; accepted: at most 64";
  } else if (c.block_dim == 0) {
    wrong = "a block dim of 0; accepted: SetBlockDim with at least 1";
  }
  if (!wrong.empty()) {
    failure->kind = 4;
    std::snprintf(failure->text, sizeof(failure->text), "%s", wrong.c_str());
    return 1;
  }
  size_t workspace = 0;
  for (size_t size : c.workspaces) workspace += size;
  *tiling = {c.block_dim, c.schedule_mode, c.tiling_key, c.tiling.data(), c.tiling_size, workspace, c.need_atomic};
  return 0;
}

int mco_host_result(const mco_host_call* call, int instance, int* dtype, int* ndim, int64_t* dims, int capacity) {
  const auto& output = call->call.outputs[static_cast<size_t>(instance)];
  const gert::Shape& shape = output.tensor.GetOriginShape();
  *dtype = output.desc.GetDataType();
  *ndim = static_cast<int>(shape.GetDimNum());
  for (int i = 0; i < *ndim && i < capacity; i++) dims[i] = shape.GetDim(static_cast<size_t>(i));
  return 0;
}

}  // extern "C"
