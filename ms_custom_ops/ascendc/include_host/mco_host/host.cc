// SPDX-License-Identifier: Apache-2.0
// The runtime of a project's library in one unit, so that its headers are read once.
#include "mco_host/runtime.cc"
#include "mco_host/describe.cc"
#include "mco_host/template_key.cc"
#include "mco_host/guard.cc"
