// SPDX-License-Identifier: Apache-2.0
// The contexts of namespace gert that shape inference and tiling functions take.
#ifndef MCO_HOST_CONTEXTS_H_
#define MCO_HOST_CONTEXTS_H_

#include <cstring>
#include <string>

#include "mco_host/call.h"
#include "mco_host/platform_infos.h"

namespace gert {

class AnchorInstanceInfo {
 public:
  AnchorInstanceInfo(size_t start = 0, size_t count = 0) : start_(start), count_(count) {}
  size_t GetInstanceNum() const { return count_; }
  size_t GetInstanceStart() const { return start_; }

 private:
  size_t start_, count_;
};

class RuntimeAttrs {
 public:
  explicit RuntimeAttrs(const mco_host::Call* call) : call_(call) {}
  size_t GetAttrNum() const { return call_->attributes.size(); }
  template <typename T>
  const T* GetAttrPointer(size_t i) const {
    return i < GetAttrNum() ? static_cast<const T*>(call_->attributes[i].Address()) : nullptr;
  }
  const int64_t* GetInt(size_t i) const { return GetAttrPointer<int64_t>(i); }
  const float* GetFloat(size_t i) const { return GetAttrPointer<float>(i); }
  const bool* GetBool(size_t i) const { return GetAttrPointer<bool>(i); }
  const char* GetStr(size_t i) const { return GetAttrPointer<char>(i); }
  const TypedContinuousVector<int64_t>* GetListInt(size_t i) const {
    return GetAttrPointer<TypedContinuousVector<int64_t>>(i);
  }
  const TypedContinuousVector<float>* GetListFloat(size_t i) const {
    return GetAttrPointer<TypedContinuousVector<float>>(i);
  }
  const TypedContinuousVector<bool>* GetListBool(size_t i) const {
    return GetAttrPointer<TypedContinuousVector<bool>>(i);
  }
  const ContinuousVectorVector* GetListListInt(size_t i) const { return GetAttrPointer<ContinuousVectorVector>(i); }

 private:
  const mco_host::Call* call_;
};

// What all contexts answer. Indices of Get*Input* count the tensors that are there; those of Optional, Required and
// Dynamic count the inputs of the definition, as the manual says.
class ExtendedKernelContext {
 public:
  explicit ExtendedKernelContext(mco_host::Call* call) : call_(call), attrs_(call) {}
  ExtendedKernelContext(const ExtendedKernelContext&) = delete;
  ExtendedKernelContext& operator=(const ExtendedKernelContext&) = delete;

  const char* GetNodeName() const { return call_->op.c_str(); }
  const char* GetNodeType() const { return call_->op.c_str(); }
  const RuntimeAttrs* GetAttrs() const { return &attrs_; }
  size_t GetComputeNodeInputNum() const { return call_->inputs.size(); }
  size_t GetComputeNodeOutputNum() const { return call_->outputs.size(); }
  const CompileTimeTensorDesc* GetInputDesc(size_t i) const { return Desc(call_->Instance(false, i)); }
  const CompileTimeTensorDesc* GetOutputDesc(size_t i) const { return Desc(call_->Instance(true, i)); }
  const CompileTimeTensorDesc* GetOptionalInputDesc(size_t ir) const { return Desc(Ir(ir, 0)); }
  const CompileTimeTensorDesc* GetRequiredInputDesc(size_t ir) const { return Desc(Ir(ir, 0)); }
  const CompileTimeTensorDesc* GetDynamicInputDesc(size_t ir, size_t i) const { return Desc(Ir(ir, i)); }
  const AnchorInstanceInfo* GetIrInputInstanceInfo(size_t ir) const {
    if (ir >= call_->input_map.size()) return nullptr;
    static thread_local AnchorInstanceInfo info[64];
    const mco_host::Instances& at = call_->input_map[ir];
    info[ir % 64] = AnchorInstanceInfo(at.first, at.count);
    return &info[ir % 64];
  }

 protected:
  const mco_host::TensorOfCall* Ir(size_t ir, size_t relative) const {
    return call_->OfDefinition(false, ir, relative);
  }
  static const CompileTimeTensorDesc* Desc(const mco_host::TensorOfCall* t) { return t ? &t->desc : nullptr; }
  static const Tensor* TensorOf(const mco_host::TensorOfCall* t) { return t ? &t->tensor : nullptr; }
  static const StorageShape* ShapeOf(const mco_host::TensorOfCall* t) { return t ? &t->tensor.GetShape() : nullptr; }
  mco_host::Call* call_;

 private:
  RuntimeAttrs attrs_;
};

class InferShapeContext : public ExtendedKernelContext {
 public:
  using ExtendedKernelContext::ExtendedKernelContext;
  const Shape* GetInputShape(size_t i) const { return Origin(call_->Instance(false, i)); }
  const Shape* GetOptionalInputShape(size_t ir) const { return Origin(Ir(ir, 0)); }
  const Shape* GetRequiredInputShape(size_t ir) const { return Origin(Ir(ir, 0)); }
  const Shape* GetDynamicInputShape(size_t ir, size_t i) const { return Origin(Ir(ir, i)); }
  const Tensor* GetInputTensor(size_t i) const { return TensorOf(call_->Instance(false, i)); }
  const Tensor* GetOptionalInputTensor(size_t ir) const { return TensorOf(Ir(ir, 0)); }
  const Tensor* GetRequiredInputTensor(size_t ir) const { return TensorOf(Ir(ir, 0)); }
  const Tensor* GetDynamicInputTensor(size_t ir, size_t i) const { return TensorOf(Ir(ir, i)); }
  Shape* GetOutputShape(size_t i) {
    return i < call_->outputs.size() ? &call_->outputs[i].tensor.MutableOriginShape() : nullptr;
  }

 private:
  static const Shape* Origin(const mco_host::TensorOfCall* t) { return t ? &t->tensor.GetOriginShape() : nullptr; }
};

class InferDataTypeContext : public ExtendedKernelContext {
 public:
  using ExtendedKernelContext::ExtendedKernelContext;
  ge::DataType GetInputDataType(size_t i) const { return Type(call_->Instance(false, i)); }
  ge::DataType GetOptionalInputDataType(size_t ir) const { return Type(Ir(ir, 0)); }
  ge::DataType GetRequiredInputDataType(size_t ir) const { return Type(Ir(ir, 0)); }
  ge::DataType GetDynamicInputDataType(size_t ir, size_t i) const { return Type(Ir(ir, i)); }
  ge::DataType GetOutputDataType(size_t i) const { return Type(call_->Instance(true, i)); }
  ge::graphStatus SetOutputDataType(size_t i, ge::DataType type) {
    if (i >= call_->outputs.size()) return ge::GRAPH_FAILED;
    call_->outputs[i].desc.SetDataType(type);
    call_->outputs[i].tensor.SetDataType(type);
    return ge::GRAPH_SUCCESS;
  }

 private:
  static ge::DataType Type(const mco_host::TensorOfCall* t) { return t ? t->desc.GetDataType() : ge::DT_UNDEFINED; }
};

template <typename T>
class Range {
 public:
  Range() = default;
  Range(T* min, T* max) : min_(min), max_(max) {}
  explicit Range(T* same) : Range(same, same) {}
  const T* GetMin() const { return min_; }
  const T* GetMax() const { return max_; }
  T* GetMin() { return min_; }
  T* GetMax() { return max_; }
  void SetMin(T* min) { min_ = min; }
  void SetMax(T* max) { max_ = max; }

 private:
  T *min_ = nullptr, *max_ = nullptr;
};

// Ranges of shapes belong to graphs of unknown shapes, which are not there: functions that take this are never called.
class InferShapeRangeContext : public ExtendedKernelContext {
 public:
  const Range<Shape>* GetInputShapeRange(size_t i) const;
  Range<Shape>* GetOutputShapeRange(size_t i);
};

// The bytes that a kernel gets behind its workspace.
class TilingData {
 public:
  explicit TilingData(mco_host::Call* call) : call_(call) {}
  void* GetData() { return call_->tiling.data(); }
  const void* GetData() const { return call_->tiling.data(); }
  size_t GetCapacity() const { return call_->tiling.size(); }
  size_t GetDataSize() const { return call_->tiling_size; }
  void SetDataSize(size_t size) { call_->tiling_size = size; }
  ge::graphStatus Append(const void* data, size_t size) {
    if (size > GetCapacity() - GetDataSize()) return ge::GRAPH_FAILED;
    std::memcpy(call_->tiling.data() + call_->tiling_size, data, size);
    call_->tiling_size += size;
    return ge::GRAPH_SUCCESS;
  }
  template <typename T>
  ge::graphStatus Append(const T& value) {
    return Append(&value, sizeof(T));
  }

 private:
  mco_host::Call* call_;
};

class TilingContext : public ExtendedKernelContext {
 public:
  explicit TilingContext(mco_host::Call* call) : ExtendedKernelContext(call), tiling_(call), platform_(call->chip) {}
  const StorageShape* GetInputShape(size_t i) const { return ShapeOf(call_->Instance(false, i)); }
  const StorageShape* GetOutputShape(size_t i) const { return ShapeOf(call_->Instance(true, i)); }
  const StorageShape* GetOptionalInputShape(size_t ir) const { return ShapeOf(Ir(ir, 0)); }
  const StorageShape* GetRequiredInputShape(size_t ir) const { return ShapeOf(Ir(ir, 0)); }
  const StorageShape* GetDynamicInputShape(size_t ir, size_t i) const { return ShapeOf(Ir(ir, i)); }
  const StorageShape* GetRequiredOutputShape(size_t ir) const { return GetDynamicOutputShape(ir, 0); }
  const StorageShape* GetDynamicOutputShape(size_t ir, size_t i) const {
    return ShapeOf(call_->OfDefinition(true, ir, i));
  }
  const Tensor* GetInputTensor(size_t i) const { return TensorOf(call_->Instance(false, i)); }
  const Tensor* GetOptionalInputTensor(size_t ir) const { return TensorOf(Ir(ir, 0)); }
  const Tensor* GetRequiredInputTensor(size_t ir) const { return TensorOf(Ir(ir, 0)); }
  const Tensor* GetDynamicInputTensor(size_t ir, size_t i) const { return TensorOf(Ir(ir, i)); }
  bool InputIsView(size_t) const { return false; }  // inputs are contiguous here

  ge::graphStatus SetNumBlocks(uint32_t n) { return SetBlockDim(n); }
  uint32_t GetNumBlocks() const { return GetBlockDim(); }
  ge::graphStatus SetBlockDim(uint32_t n) { return call_->block_dim = n, ge::GRAPH_SUCCESS; }
  uint32_t GetBlockDim() const { return call_->block_dim; }
  ge::graphStatus SetTilingKey(uint64_t key) { return call_->tiling_key = key, ge::GRAPH_SUCCESS; }
  uint64_t GetTilingKey() const { return call_->tiling_key; }
  ge::graphStatus SetNeedAtomic(bool flag) { return call_->need_atomic = flag, ge::GRAPH_SUCCESS; }
  bool NeedAtomic() const { return call_->need_atomic; }
  ge::graphStatus SetScheduleMode(uint32_t mode) { return call_->schedule_mode = mode, ge::GRAPH_SUCCESS; }
  uint32_t GetScheduleMode() const { return call_->schedule_mode; }
  ge::graphStatus SetLocalMemorySize(uint32_t size) { return call_->local_memory = size, ge::GRAPH_SUCCESS; }
  uint32_t GetLocalMemorySize() const { return call_->local_memory; }
  ge::graphStatus SetTilingCond(int32_t condition) { return call_->tiling_condition = condition, ge::GRAPH_SUCCESS; }
  int32_t GetTilingCond() const { return call_->tiling_condition; }
  int32_t GetDeterministic() const { return call_->deterministic; }

  TilingData* GetRawTilingData() { return &tiling_; }
  template <typename T>
  T* GetTilingData() {
    if (sizeof(T) > call_->tiling.size()) return nullptr;
    call_->tiling_size = sizeof(T);
    return reinterpret_cast<T*>(call_->tiling.data());
  }
  size_t* GetWorkspaceSizes(size_t n) {
    call_->workspaces.assign(n, 0);
    return call_->workspaces.data();
  }
  size_t GetWorkspaceNum() const { return call_->workspaces.size(); }
  fe::PlatFormInfos* GetPlatformInfo() const { return const_cast<fe::PlatFormInfos*>(&platform_); }
  const void* GetCompileInfo() const { return call_->compile_info.get(); }
  template <typename T>
  const T* GetCompileInfo() const {
    return static_cast<const T*>(GetCompileInfo());
  }

 private:
  TilingData tiling_;
  fe::PlatFormInfos platform_;
};

class TilingParseContext : public ExtendedKernelContext {
 public:
  explicit TilingParseContext(mco_host::Call* call) : ExtendedKernelContext(call), platform_(call->chip) {}
  const char* GetCompiledJson() const { return "{}"; }
  template <typename T>
  T* GetCompiledInfo() {
    return static_cast<T*>(call_->compile_info.get());
  }
  fe::PlatFormInfos* GetPlatformInfo() const { return const_cast<fe::PlatFormInfos*>(&platform_); }

 private:
  fe::PlatFormInfos platform_;
};

}  // namespace gert

#endif  // MCO_HOST_CONTEXTS_H_
