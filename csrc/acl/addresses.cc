// SPDX-License-Identifier: Apache-2.0
#include "addresses.h"

#include "objects.h"

namespace mco_acl {

int parameter_of(const Place& place, const Op& op) {
  size_t places = 0, items = 0;
  bool list = false;
  for (int i = 0; i < op.count; ++i) {
    const Param& param = op.params[i];
    if (!((place.inputs && param.type == Type::kInput) || (place.outputs && param.type == Type::kOutput))) continue;
    if (param.in_list != InList::kNext) ++places;
    if (places != place.index + 1) continue;
    list = param.in_list != InList::kNo;
    if (list == place.listed && items++ == place.item) return i;
  }
  if (place.index >= places) {
    refuse(ACLNN_ERR_PARAM_INVALID, "%s: index is %zu; accepted: below %zu, the tensors of %s", place.function,
           place.index, places, op.name);
  }
  if (list != place.listed) {
    refuse(
        ACLNN_ERR_PARAM_INVALID, "%s: index %zu of %s is %s", place.function, place.index, op.name,
        list ? "a list of tensors; accepted: the functions of Dynamic" : "one tensor; accepted: those without Dynamic");
  }
  refuse(ACLNN_ERR_PARAM_INVALID, "%s: relativeIndex is %zu; accepted: below %zu, the tensors of the list",
         place.function, place.item, items);
}

const void* entry_of(const char* function, const aclTensorList* tensors, size_t item) {
  const auto list = find<List>(tensors, Kind::kTensorList);
  if (!list) refuse(ACLNN_ERR_PARAM_INVALID, "%s: the list was destroyed, or is none", function);
  if (item < list->values.size()) return list->values[item];
  refuse(ACLNN_ERR_PARAM_INVALID, "%s: relativeIndex is %zu; accepted: below %zu, the tensors of the list", function,
         item, list->values.size());
}

}  // namespace mco_acl
