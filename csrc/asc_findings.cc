// SPDX-License-Identifier: Apache-2.0
#include "asc_findings.h"

#include "capi_findings.h"

namespace mco::asc {

mco_findings* findings_of(const Checked& checked) {
  auto all = std::make_unique<mco_findings>();
  all->list = checked.findings();
  all->dropped = checked.dropped();
  all->tables = checked.shared_program();
  all->cores = checked.titles();
  return all.release();
}

void hand_over(const Launch& launch) {
  if (!launch.checked) return;
  if (launch.spec.findings) {
    *launch.spec.findings = findings_of(*launch.checked);
    return;
  }
  const std::vector<Finding> found = launch.checked->findings();
  if (!found.empty()) fail_with("", launch.checked->program(), found);
}

}  // namespace mco::asc
