// SPDX-License-Identifier: Apache-2.0
#include "objects.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace mco_acl {
namespace {

struct Named {
  int number;
  const char* name;
};

constexpr Named kDTypes[] = {{ACL_FLOAT, "float32"},
                             {ACL_FLOAT16, "float16"},
                             {ACL_INT8, "int8"},
                             {ACL_INT32, "int32"},
                             {ACL_UINT8, "uint8"},
                             {ACL_INT16, "int16"},
                             {ACL_UINT16, "uint16"},
                             {ACL_UINT32, "uint32"},
                             {ACL_INT64, "int64"},
                             {ACL_UINT64, "uint64"},
                             {ACL_DOUBLE, "float64"},
                             {ACL_BOOL, "bool"},
                             {ACL_STRING, "string"},
                             {ACL_COMPLEX64, "complex64"},
                             {ACL_COMPLEX128, "complex128"},
                             {ACL_BF16, "bfloat16"},
                             {ACL_INT4, "int4"},
                             {ACL_UINT1, "uint1"},
                             {ACL_COMPLEX32, "complex32"},
                             {ACL_HIFLOAT8, "hifloat8"},
                             {ACL_FLOAT8_E5M2, "float8_e5m2"},
                             {ACL_FLOAT8_E4M3FN, "float8_e4m3fn"},
                             {ACL_FLOAT8_E8M0, "float8_e8m0"},
                             {ACL_FLOAT6_E3M2, "float6_e3m2"},
                             {ACL_FLOAT6_E2M3, "float6_e2m3"},
                             {ACL_FLOAT4_E2M1, "float4_e2m1"},
                             {ACL_FLOAT4_E1M2, "float4_e1m2"}};
constexpr Named kFormats[] = {{ACL_FORMAT_UNDEFINED, "UNDEFINED"},
                              {ACL_FORMAT_NCHW, "NCHW"},
                              {ACL_FORMAT_NHWC, "NHWC"},
                              {ACL_FORMAT_ND, "ND"},
                              {ACL_FORMAT_NC1HWC0, "NC1HWC0"},
                              {ACL_FORMAT_FRACTAL_Z, "FRACTAL_Z"},
                              {ACL_FORMAT_NC1HWC0_C04, "NC1HWC0_C04"},
                              {ACL_FORMAT_HWCN, "HWCN"},
                              {ACL_FORMAT_NDHWC, "NDHWC"},
                              {ACL_FORMAT_FRACTAL_NZ, "FRACTAL_NZ"},
                              {ACL_FORMAT_NCDHW, "NCDHW"},
                              {ACL_FORMAT_NDC1HWC0, "NDC1HWC0"},
                              {ACL_FRACTAL_Z_3D, "FRACTAL_Z_3D"},
                              {ACL_FORMAT_NC, "NC"},
                              {ACL_FORMAT_NCL, "NCL"}};

int64_t times(const char* what, int64_t a, int64_t b) {
  int64_t out;
  if (__builtin_mul_overflow(a, b, &out))
    refuse(ACLNN_ERR_PARAM_INVALID, "aclCreateTensor: %s that no memory holds", what);
  return out;
}

int64_t plus(const char* what, int64_t a, int64_t b) {
  int64_t out;
  if (__builtin_add_overflow(a, b, &out))
    refuse(ACLNN_ERR_PARAM_INVALID, "aclCreateTensor: %s that no memory holds", what);
  return out;
}

std::vector<int64_t> sizes(const char* what, const int64_t* dims, uint64_t count) {
  if (count > kMostDims) {
    refuse(ACLNN_ERR_PARAM_INVALID, "aclCreateTensor: %s has rank %llu; accepted: up to %llu", what,
           static_cast<unsigned long long>(count), static_cast<unsigned long long>(kMostDims));
  }
  if (count && !dims) refuse(ACLNN_ERR_PARAM_NULLPTR, "aclCreateTensor: %s is null with rank %d", what, int(count));
  std::vector<int64_t> out;
  for (uint64_t i = 0; i < count; ++i) {
    if (dims[i] < 0) {
      refuse(ACLNN_ERR_PARAM_INVALID, "aclCreateTensor: %s has the size %lld; accepted: at least 0", what,
             static_cast<long long>(dims[i]));
    }
    out.push_back(dims[i]);
  }
  return out;
}

View make_view(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
               int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum, void* data) {
  View v;
  v.dims = sizes("viewDims", viewDims, viewDimsNum);
  v.storage = sizes("storageDims", storageDims, storageDims ? storageDimsNum : 0);
  if (!*dtype_name(dataType)) refuse(ACLNN_ERR_PARAM_INVALID, "aclCreateTensor: dataType %d is none", int(dataType));
  if (offset < 0) {
    refuse(ACLNN_ERR_PARAM_INVALID, "aclCreateTensor: offset is %lld; accepted: at least 0",
           static_cast<long long>(offset));
  }
  v.dtype = dataType, v.format = format, v.offset = offset, v.data = data;
  int64_t step = 1;
  v.strides.resize(v.dims.size());
  for (size_t i = v.dims.size(); i-- > 0;) {
    v.strides[i] = stride ? stride[i] : step;
    if (v.strides[i] < 0) {
      refuse(ACLNN_ERR_PARAM_INVALID, "aclCreateTensor: stride is %lld; accepted: at least 0",
             static_cast<long long>(v.strides[i]));
    }
    step = times("viewDims", step, std::max<int64_t>(v.dims[i], 1));
  }
  times("viewDims", step, 16);  // bytes
  const int64_t extent = v.extent();
  times("a view", extent, 16);
  if (storageDims && plain(format)) {
    int64_t room = 1;
    for (int64_t n : v.storage) room = times("storageDims", room, n);
    if (extent > room) {
      refuse(ACLNN_ERR_PARAM_INVALID,
             "aclCreateTensor: the view reaches element %lld of its storage; accepted: the %lld "
             "elements of storageDims",
             static_cast<long long>(extent - 1), static_cast<long long>(room));
    }
  }
  if (v.storage.empty()) v.storage = v.dims;
  return v;
}

// What `body` makes, or null with a text.
template <class T, class F>
T* made(Kind kind, F body) noexcept {
  void* handle = nullptr;
  guarded(ACLNN_ERR_INNER, [&] { handle = enroll(body(), kind); });
  return static_cast<T*>(handle);
}

template <class Out, class Held, class In>
Out* array(const char* function, Kind kind, const In* value, uint64_t size) noexcept {
  return made<Out>(kind, [&] {
    if (size && !value)
      refuse(ACLNN_ERR_PARAM_NULLPTR, "%s: value is null; accepted: %llu values", function,
             static_cast<unsigned long long>(size));
    if (size > (1ull << 40)) refuse(ACLNN_ERR_PARAM_INVALID, "%s: a size that no memory holds", function);
    auto out = std::make_shared<Held>();
    out->values.assign(value, value + size);
    return out;
  });
}

template <class In>
List list_of(const char* function, Kind kind, const In* const* value, uint64_t size) {
  if (size && !value) refuse(ACLNN_ERR_PARAM_NULLPTR, "%s: value is null", function);
  List out;
  for (uint64_t i = 0; i < size; ++i) {
    if (value[i] && !look_up(value[i], kind)) {
      refuse(ACLNN_ERR_PARAM_INVALID, "%s: entry %llu was destroyed, or is none", function,
             static_cast<unsigned long long>(i));
    }
    out.values.push_back(value[i]);
  }
  return out;
}

aclnnStatus destroy(const char* function, const void* handle, Kind kind) {
  return guarded(ACLNN_ERR_INNER, [&] {
    if (handle && !withdraw(handle, kind)) {
      refuse(ACLNN_ERR_PARAM_INVALID, "%s: destroyed before, or none of this library's", function);
    }
  });
}

aclnnStatus destroy_list(const char* function, const void* handle, Kind kind, Kind entry) {
  return guarded(ACLNN_ERR_INNER, [&] {
    if (!handle) return;
    const auto list = std::static_pointer_cast<List>(withdraw(handle, kind));
    if (!list) refuse(ACLNN_ERR_PARAM_INVALID, "%s: destroyed before, or none of this library's", function);
    for (const void* one : list->values) withdraw(one, entry);
  });
}

std::shared_ptr<Tensor> tensor_of(const char* function, const aclTensor* tensor, bool places) {
  if (!tensor || !places)
    refuse(ACLNN_ERR_PARAM_NULLPTR, "%s: a null pointer; accepted: a tensor and places", function);
  auto found = find<Tensor>(tensor, Kind::kTensor);
  if (!found) refuse(ACLNN_ERR_PARAM_INVALID, "%s: the tensor was destroyed, or is none", function);
  return found;
}

void give(const std::vector<int64_t>& values, int64_t** out, uint64_t* count) {
  int64_t* copy = new int64_t[std::max<size_t>(values.size(), 1)];
  std::copy(values.begin(), values.end(), copy);
  *out = copy;
  *count = values.size();
}

template <class T>
aclnnStatus size_of(const char* function, const void* handle, Kind kind, uint64_t* size) {
  return guarded(ACLNN_ERR_INNER, [&] {
    if (!handle || !size)
      refuse(ACLNN_ERR_PARAM_NULLPTR, "%s: a null pointer; accepted: an array and a place", function);
    const auto found = find<T>(handle, kind);
    if (!found) refuse(ACLNN_ERR_PARAM_INVALID, "%s: destroyed before, or none of this library's", function);
    *size = found->values.size();
  });
}

}  // namespace

const char* dtype_name(aclDataType dtype) {
  for (const Named& known : kDTypes) {
    if (known.number == int(dtype)) return known.name;
  }
  return "";
}

bool plain(aclFormat format) {
  switch (int(format)) {
    case ACL_FORMAT_ND:
    case ACL_FORMAT_NCHW:
    case ACL_FORMAT_NHWC:
    case ACL_FORMAT_HWCN:
    case ACL_FORMAT_NDHWC:
    case ACL_FORMAT_NCDHW:
    case ACL_FORMAT_NC:
    case ACL_FORMAT_NCL:
      return true;
    default:
      return false;
  }
}

std::string format_name(aclFormat format) {
  for (const Named& known : kFormats) {
    if (known.number == int(format)) return known.name;
  }
  return std::to_string(int(format));
}

int64_t View::elements() const {
  return std::accumulate(dims.begin(), dims.end(), int64_t(1), [](int64_t a, int64_t b) { return a * b; });
}

bool View::contiguous() const {
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] > 1 && strides[i] != step) return false;
    step *= dims[i];
  }
  return true;
}

bool View::overlaps() const {
  if (elements() == 0) return false;
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride, size
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] > 1) axes.emplace_back(strides[i], dims[i]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t reach = 0;  // of the axes with smaller strides
  for (const auto& [stride, size] : axes) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

int64_t View::extent() const {
  int64_t last = offset;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0) return 0;
    last = plus("a view", last, times("a view", strides[i], dims[i] - 1));
  }
  return plus("a view", last, 1);
}

}  // namespace mco_acl

using namespace mco_acl;

extern "C" {

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData) {
  return made<aclTensor>(Kind::kTensor, [&] {
    auto tensor = std::make_shared<Tensor>();
    tensor->view =
        make_view(viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorData);
    return tensor;
  });
}

aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                          const int64_t* stride, int64_t offset, aclFormat format, const int64_t* storageDims,
                          uint64_t storageDimsNum, void* tensorDataAddr) {
  return guarded(ACLNN_ERR_INNER, [&] {
    const auto known = tensor_of("aclInitTensor", tensor, true);
    known->view =
        make_view(viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorDataAddr);
  });
}

aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
  return made<aclScalar>(Kind::kScalar, [&] {
    const size_t size = aclDataTypeSize(dataType);
    if (!value) refuse(ACLNN_ERR_PARAM_NULLPTR, "aclCreateScalar: value is null; accepted: a value of the dtype");
    if (size == 0)
      refuse(ACLNN_ERR_PARAM_INVALID, "aclCreateScalar: dataType is %d; accepted: one of whole bytes", int(dataType));
    auto scalar = std::make_shared<Scalar>();
    scalar->dtype = dataType;
    std::memcpy(scalar->bytes, value, size);
    return scalar;
  });
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return array<aclIntArray, IntArray>("aclCreateIntArray", Kind::kIntArray, value, size);
}
aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
  return array<aclFloatArray, FloatArray>("aclCreateFloatArray", Kind::kFloatArray, value, size);
}
aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  return array<aclBoolArray, BoolArray>("aclCreateBoolArray", Kind::kBoolArray, value, size);
}
aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  return made<aclTensorList>(Kind::kTensorList, [&] {
    return std::make_shared<List>(list_of("aclCreateTensorList", Kind::kTensor, value, size));
  });
}
aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
  return made<aclScalarList>(Kind::kScalarList, [&] {
    return std::make_shared<List>(list_of("aclCreateScalarList", Kind::kScalar, value, size));
  });
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) { return destroy("aclDestroyTensor", tensor, Kind::kTensor); }
aclnnStatus aclDestroyScalar(const aclScalar* scalar) { return destroy("aclDestroyScalar", scalar, Kind::kScalar); }
aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
  return destroy("aclDestroyIntArray", array, Kind::kIntArray);
}
aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) {
  return destroy("aclDestroyFloatArray", array, Kind::kFloatArray);
}
aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
  return destroy("aclDestroyBoolArray", array, Kind::kBoolArray);
}
aclnnStatus aclDestroyTensorList(const aclTensorList* array) {
  return destroy_list("aclDestroyTensorList", array, Kind::kTensorList, Kind::kTensor);
}
aclnnStatus aclDestroyScalarList(const aclScalarList* array) {
  return destroy_list("aclDestroyScalarList", array, Kind::kScalarList, Kind::kScalar);
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
  return guarded(ACLNN_ERR_INNER, [&] {
    give(tensor_of("aclGetViewShape", tensor, viewDims && viewDimsNum)->view.dims, viewDims, viewDimsNum);
  });
}
aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum) {
  return guarded(ACLNN_ERR_INNER, [&] {
    give(tensor_of("aclGetStorageShape", tensor, storageDims && storageDimsNum)->view.storage, storageDims,
         storageDimsNum);
  });
}
aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue, uint64_t* stridesNum) {
  return guarded(ACLNN_ERR_INNER, [&] {
    give(tensor_of("aclGetViewStrides", tensor, stridesValue && stridesNum)->view.strides, stridesValue, stridesNum);
  });
}
aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  return guarded(ACLNN_ERR_INNER, [&] { *offset = tensor_of("aclGetViewOffset", tensor, offset)->view.offset; });
}
aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  return guarded(ACLNN_ERR_INNER, [&] { *format = tensor_of("aclGetFormat", tensor, format)->view.format; });
}
aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  return guarded(ACLNN_ERR_INNER, [&] { *dataType = tensor_of("aclGetDataType", tensor, dataType)->view.dtype; });
}
aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
  return size_of<IntArray>("aclGetIntArraySize", array, Kind::kIntArray, size);
}
aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
  return size_of<FloatArray>("aclGetFloatArraySize", array, Kind::kFloatArray, size);
}
aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
  return size_of<BoolArray>("aclGetBoolArraySize", array, Kind::kBoolArray, size);
}
aclnnStatus aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size) {
  return size_of<List>("aclGetTensorListSize", tensorList, Kind::kTensorList, size);
}
aclnnStatus aclGetScalarListSize(const aclScalarList* scalarList, uint64_t* size) {
  return size_of<List>("aclGetScalarListSize", scalarList, Kind::kScalarList, size);
}

}  // extern "C"
