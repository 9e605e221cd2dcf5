// SPDX-License-Identifier: Apache-2.0
// C interface of a core.
#include <algorithm>

#include "capi.h"
#include "core.h"
#include "guarded.h"

struct mco_core {
  mco_core(const int64_t (&scope_bytes)[mco::kScopes], bool saturate) : core(scope_bytes, saturate, nullptr) {}
  mco::Core core;
};

namespace {

mco::DType dtype_of(int code) {
  if (code < 0 || code >= mco::kDTypes) mco::fail("core: dtype %d; accepted: 0 to %d", code, mco::kDTypes - 1);
  return mco::DType(code);
}

mco::Core& of(mco_core* core, bool complete = true) {
  if (!core || !complete) mco::fail("mco_core: a pointer is null");
  return core->core;
}

// An instruction as the caller gives it.
struct Form {
  std::vector<mco::Core::Place> places;
  std::vector<mco::Core::Argument> values;
  std::vector<int64_t> attributes;

  Form(const mco_place* operands, int n, const mco_argument* arguments, int na, const int64_t* attrs, int nattrs) {
    if (n < 0 || na < 0 || nattrs < 0) mco::fail("mco_core_issue: a negative number of operands");
    if ((!operands && n) || (!arguments && na) || (!attrs && nattrs)) mco::fail("mco_core: a pointer is null");
    for (int i = 0; i < n; ++i) {
      places.push_back({operands[i].buffer, dtype_of(operands[i].dtype), operands[i].offset});
    }
    for (int i = 0; i < na; ++i) {
      mco::Core::Argument a;
      if (arguments[i].reg >= 0) {
        a.reg = uint32_t(arguments[i].reg);
      } else {
        a.dtype = dtype_of(arguments[i].dtype);
        if (mco::is_float(a.dtype)) {
          a.value.f = arguments[i].value.f;
        } else {
          a.value.i = arguments[i].value.i;
        }
      }
      values.push_back(a);
    }
    attributes.assign(attrs, attrs + nattrs);
  }
};

}  // namespace

extern "C" {

int mco_core_new(const int64_t* scope_bytes, int saturate, mco_core** out, char* err, size_t errlen) {
  return mco::guarded(err, errlen, [&] {
    if (!out || !scope_bytes) mco::fail("mco_core_new: no place for the core, or no sizes");
    int64_t bytes[mco::kScopes];
    for (int s = 0; s < mco::kScopes; ++s) bytes[s] = scope_bytes[s];
    *out = new mco_core(bytes, saturate != 0);
  });
}

void mco_core_free(mco_core* core) { delete core; }

int mco_core_tensor(mco_core* core, const char* name, int dtype, void* data, int64_t bytes, uint32_t* buffer, char* err,
                    size_t errlen) {
  return mco::guarded(err, errlen,
                      [&] { *buffer = of(core, name && buffer).add_tensor(name, dtype_of(dtype), data, bytes); });
}

int mco_core_buffer(mco_core* core, const char* name, int scope, int dtype, int64_t address, int64_t bytes,
                    uint32_t* buffer, char* err, size_t errlen) {
  return mco::guarded(err, errlen, [&] {
    if (scope < 0 || scope >= mco::kScopes) mco::fail("core: scope %d; accepted: 1 to %d", scope, mco::kScopes - 1);
    *buffer = of(core, name && buffer).add_buffer(name, mco::Scope(scope), dtype_of(dtype), address, bytes);
  });
}

int mco_core_memory(mco_core* core, uint32_t buffer, void** data, int64_t* bytes, char* err, size_t errlen) {
  return mco::guarded(err, errlen, [&] {
    const mco::View view = of(core, data && bytes).memory(buffer);
    *data = view.base;
    *bytes = view.size;
  });
}

int mco_core_register(mco_core* core, const char* name, int dtype, uint32_t* reg, char* err, size_t errlen) {
  return mco::guarded(err, errlen, [&] { *reg = of(core, name && reg).add_register(name, dtype_of(dtype)); });
}

int mco_core_set(mco_core* core, uint32_t reg, mco_scalar value, char* err, size_t errlen) {
  return mco::guarded(err, errlen, [&] { of(core).set_register(reg, value.i, value.f); });
}

int mco_core_issue(mco_core* core, const char* row, const mco_place* operands, int n, const mco_argument* arguments,
                   int na, const int64_t* attributes, int nattrs, const char* file, uint32_t line, char* err,
                   size_t errlen) {
  return mco::guarded(err, errlen, [&] {
    const Form form(operands, n, arguments, na, attributes, nattrs);
    of(core, row && file).issue(row, form.places, form.values, form.attributes, file, line);
  });
}

int mco_core_access(mco_core* core, const char* row, const mco_place* operands, int n, const mco_argument* arguments,
                    int na, const int64_t* attributes, int nattrs, int operand, int64_t* boxes, int64_t most,
                    int64_t* count, int* exact, char* err, size_t errlen) {
  return mco::guarded(err, errlen, [&] {
    const Form form(operands, n, arguments, na, attributes, nattrs);
    mco::Core& machine = of(core, row && count && exact && most >= 0 && (boxes || !most));
    const mco::Touched found = machine.access(row, form.places, form.values, form.attributes, operand);
    *count = int64_t(found.boxes.size());
    *exact = found.exact;
    for (int64_t i = 0; i < std::min(*count, most); ++i) {
      const mco::Box& b = found.boxes[size_t(i)];
      const int64_t numbers[] = {b.start, b.bytes, b.count, b.step, b.outer_count, b.outer_step};
      std::copy(numbers, numbers + 6, boxes + 6 * i);
    }
  });
}

}  // extern "C"
