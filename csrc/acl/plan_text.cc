// SPDX-License-Identifier: Apache-2.0
// Reads a plan. Its text comes from a file or another process: every number is checked.
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "objects.h"
#include "plan.h"

namespace mco_acl {
namespace {

constexpr int64_t kMost = int64_t(1) << 40;  // of any count
constexpr int64_t kMostWords = 1 << 16;      // of the descriptor of a list of tensors
constexpr const char* kSteps[] = {"pad",    "cut",    "cast",      "flags", "reshape", "broadcast",
                                  "repeat", "corner", "swap",      "batch", "unbatch", "take",
                                  "keep",   "sum",    "transpose", "bits",  "tile",    "first"};

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  std::string word() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ' ' && text_[at_] != '\n') ++at_;
    if (begin == at_) bad("its end");
    return text_.substr(begin, at_ - begin);
  }
  int64_t number(int64_t low, int64_t high) {
    const std::string given = word();
    char* end = nullptr;
    errno = 0;
    const long long value = std::strtoll(given.c_str(), &end, 10);
    if (errno || *end || value < low || value > high) bad(given.c_str());
    return value;
  }
  double real() {
    const std::string given = word();
    char* end = nullptr;
    const double value = std::strtod(given.c_str(), &end);
    if (*end) bad(given.c_str());
    return value;
  }
  mco::DType dtype() {
    const std::string given = word();
    for (int i = 0; i < mco::kDTypes; ++i) {
      if (given == mco::kDTypeName[i]) return mco::DType(i);
    }
    bad(given.c_str());
  }
  std::vector<int64_t> shape() {
    std::vector<int64_t> out(size_t(number(0, int64_t(kMostDims))));
    for (int64_t& n : out) n = number(0, kMost);
    return out;
  }
  // `size` bytes behind the next line end.
  std::string raw(int64_t size) {
    if (at_ >= text_.size() || text_[at_] != '\n' || size > int64_t(text_.size() - at_ - 1)) bad("a text");
    std::string out = text_.substr(at_ + 1, size_t(size));
    at_ += 1 + size_t(size);
    return out;
  }
  [[noreturn]] void bad(const char* what) const {
    refuse(ACLNN_ERR_INNER,
           "a plan that cannot be read at %s (byte %zu); accepted: ms-custom-ops cache clear, and the "
           "call again",
           what, at_);
  }

 private:
  const std::string& text_;
  size_t at_ = 0;
};

int reference(Reader& r, char letter, size_t count) {
  const std::string word = r.word();
  char* end = nullptr;
  const long number = word.size() > 1 && word[0] == letter ? std::strtol(word.c_str() + 1, &end, 10) : -1;
  if (!end || *end || number < 0 || size_t(number) >= count) r.bad(word.c_str());
  return int(number);
}

Step read_step(Reader& r, size_t constants) {
  Step step;
  const std::string kind = r.word();
  int found = -1;
  for (int i = 0; i < int(sizeof kSteps / sizeof *kSteps); ++i) {
    if (kind == kSteps[i]) found = i;
  }
  if (found < 0) r.bad(kind.c_str());
  step.kind = StepKind(found);
  switch (step.kind) {
    case StepKind::kPad:
      step.numbers = {r.number(-int64_t(kMostDims), int64_t(kMostDims)), r.number(0, kMost)};
      step.value = r.real();
      break;
    case StepKind::kCut:
      step.numbers = {r.number(-int64_t(kMostDims), int64_t(kMostDims)), r.number(0, kMost)};
      break;
    case StepKind::kCorner:
      step.numbers = {r.number(0, kMost), r.number(0, kMost)};
      break;
    case StepKind::kRepeat:
    case StepKind::kTile:
      step.numbers = {r.number(0, kMost)};
      break;
    case StepKind::kCast:
      step.dtype = r.dtype();
      break;
    case StepKind::kReshape:
    case StepKind::kBroadcast:
    case StepKind::kTranspose:
      step.numbers = r.shape();
      break;
    case StepKind::kTake:
    case StepKind::kKeep:
      step.constant = reference(r, 'c', constants);
      step.numbers = {r.number(-int64_t(kMostDims), int64_t(kMostDims))};
      break;
    default:
      break;
  }
  return step;
}

Chain read_chain(Reader& r, const Plan& plan) {
  Chain chain;
  const std::string source = r.word();
  chain.source = source[0];
  if (source != "z") {
    char* end = nullptr;
    const long number = std::strtol(source.c_str() + 1, &end, 10);
    const size_t most = source[0] == 'c'   ? plan.constants.size()
                        : source[0] == 'm' ? 2 * plan.weights.size()
                        : source[0] == 'r' ? 1024
                                           : 256;
    if (!std::strchr("pcmr", source[0]) || source.size() < 2 || *end || number < 0 || size_t(number) >= most) {
      r.bad(source.c_str());
    }
    chain.number = int(number);
  }
  chain.dtype = r.dtype();
  chain.shape = r.shape();
  const int64_t steps = r.number(0, 64);
  for (int64_t i = 0; i < steps; ++i) chain.steps.push_back(read_step(r, plan.constants.size()));
  return chain;
}

Shaped read_constant(Reader& r) {
  const mco::DType dtype = r.dtype();
  if (mco::is_float(dtype)) r.bad("a constant");
  const Shaped out = fresh(dtype, r.shape());
  const int64_t count = out.elements();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = r.number(INT64_MIN, INT64_MAX);
    std::memcpy(out.data + i * mco::kSize[dtype], &value, mco::kSize[dtype]);
  }
  return out;
}

Lengths read_lengths(Reader& r) {
  Lengths out;
  out.param = reference(r, 'p', 256);
  const std::string form = r.word();
  if (form != "sums" && form != "counts") r.bad(form.c_str());
  out.sums = form == "sums";
  out.tokens = r.number(0, kMost);
  out.axis = r.word();
  out.name = r.word();
  return out;
}

Weights read_weights(Reader& r, const Plan& plan) {
  Weights out;
  if (plan.weights.size() >= 16) r.bad("more weights");
  out.trap = reference(r, 'p', 256);
  out.dt = reference(r, 'p', 256);
  if (r.number(0, 1)) out.places = reference(r, 'c', plan.constants.size());
  out.steps = r.number(0, kMost);
  out.rows = r.number(0, kMost);
  return out;
}

std::string unhex(Reader& r, const std::string& digits) {
  std::string out;
  const auto value = [&](char c) {
    const char* all = "0123456789abcdef";
    const char* at = c ? std::strchr(all, c) : nullptr;
    if (!at) r.bad("tiling data");
    return int(at - all);
  };
  if (digits.size() % 2) r.bad("tiling data");
  for (size_t i = 0; i < digits.size(); i += 2) out += char(value(digits[i]) * 16 + value(digits[i + 1]));
  return out;
}

std::unique_ptr<Launch> read_launch(Reader& r) {
  auto out = std::make_unique<Launch>();
  Launch& l = *out;
  l.blocks = r.number(1, 65535);
  const int64_t high = r.number(0, UINT32_MAX), low = r.number(0, UINT32_MAX);
  l.key = uint64_t(high) << 32 | uint64_t(low);
  l.saturate = int32_t(r.number(0, 1)), l.split = int32_t(r.number(0, 1)), l.arch = int32_t(r.number(0, 1 << 20));
  for (int64_t& bytes : l.scopes) bytes = r.number(0, kMost);
  l.workspace = r.number(0, kMost);
  l.inputs = int32_t(r.number(0, 256)), l.outputs = int32_t(r.number(1, 256));
  const int64_t slots = r.number(0, 512);
  for (int64_t i = 0; i < slots; ++i) l.slots.push_back(int32_t(r.number(-1, l.inputs + l.outputs - 1)));
  for (int32_t i = 0; i < l.outputs; ++i) l.copies.push_back(int32_t(r.number(-2, l.inputs - 1)));
  for (int64_t i = 0; i < slots; ++i) {
    l.list_tensors.push_back(int32_t(r.number(0, l.inputs + l.outputs)));
    l.list_words.push_back(int32_t(r.number(0, kMostWords)));
    for (int32_t n = 0; n < l.list_words.back(); ++n) l.words.push_back(uint64_t(r.number(0, INT64_MAX)));
  }
  l.tiling = unhex(r, r.raw(r.number(0, 1 << 20)));
  const int64_t libraries = r.number(1, 2);
  for (int64_t i = 0; i < libraries; ++i) l.libraries.push_back(r.raw(r.number(1, 1 << 16)));
  return out;
}

// Constants and results that a chain names are there.
void check_sources(Reader& r, const Plan& plan) {
  for (const Chain& chain : plan.inputs) {
    if (chain.source == 'r') r.bad("an input of a result");
  }
  for (const Output& output : plan.outputs) {
    if (output.chain.source == 'r' && size_t(output.chain.number) >= plan.results.size()) r.bad("a result");
  }
  if (plan.program_op.empty() == !plan.launch && !plan.results.empty()) r.bad("a result without a kernel");
  if (plan.launch &&
      (plan.inputs.size() != size_t(plan.launch->inputs) || plan.results.size() != size_t(plan.launch->outputs))) {
    r.bad("a launch of other tensors");
  }
}

}  // namespace

std::shared_ptr<Plan> read_plan(const std::string& text) {
  auto plan = std::make_shared<Plan>();
  Reader r(text);
  if (r.word() != "plan" || r.number(1, 1) != 1 || r.word() != "status") r.bad("its head");
  plan->status = int(r.number(0, INT32_MAX));
  plan->text = r.raw(r.number(0, 1 << 20));
  if (plan->status) return plan;
  for (std::string word = r.word(); word != "end"; word = r.word()) {
    if (word == "workspace") {
      plan->workspace = uint64_t(r.number(0, INT64_MAX));
    } else if (word == "files") {
      plan->files = r.raw(r.number(0, 1 << 24));
    } else if (word == "lengths") {
      plan->lengths.push_back(read_lengths(r));
    } else if (word == "program") {
      plan->program_op = r.word();
      plan->program_key = r.raw(r.number(1, 1 << 20));
    } else if (word == "launch") {
      plan->launch = read_launch(r);
    } else if (word == "constant") {
      plan->constants.push_back(read_constant(r));
    } else if (word == "trapezoid") {
      plan->weights.push_back(read_weights(r, *plan));
    } else if (word == "input") {
      plan->inputs.push_back(read_chain(r, *plan));
    } else if (word == "result") {
      const mco::DType dtype = r.dtype();
      plan->results.push_back({dtype, r.shape()});
    } else if (word == "output") {
      const int param = reference(r, 'p', 256);
      plan->outputs.push_back({param, read_chain(r, *plan)});
    } else {
      r.bad(word.c_str());
    }
  }
  check_sources(r, *plan);
  return plan;
}

}  // namespace mco_acl
