// SPDX-License-Identifier: Apache-2.0
#include "mco_host/template_key.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "mco_host/describe.h"

namespace mco_host {
namespace {

constexpr int kKeyBits = 64;
constexpr uint64_t kMostNumbers = 4096;  // of one parameter

std::map<std::string, TemplateKeys>& Keys() {
  static auto* keys = new std::map<std::string, TemplateKeys>;
  return *keys;
}

std::string Listed(const std::vector<uint64_t>& values) {
  std::string text;
  for (uint64_t value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text;
}

bool OfTensor(const TemplateParameter& parameter) {
  return std::any_of(parameter.values.begin(), parameter.values.end(), [](uint64_t v) { return v >= kOfTensor; });
}
bool Takes(const TemplateParameter& parameter, uint64_t value) {
  return OfTensor(parameter) ||
         std::find(parameter.values.begin(), parameter.values.end(), value) != parameter.values.end();
}

bool IsArgument(const TemplateParameter& parameter) {
  return parameter.kind != TemplateParameter::kCores && parameter.kind != TemplateParameter::kStruct;
}

// Whether a choice has these arguments; a parameter that it does not name may be any.
bool Chosen(const TemplateKeys& keys, const TemplateParameters& choice, const std::vector<uint64_t>& arguments) {
  return std::all_of(choice.begin(), choice.end(), [&](const TemplateParameter& one) {
    if (!IsArgument(one)) return true;
    for (size_t i = 0; i < arguments.size(); i++) {
      if (keys.parameters[i].name == one.name) return Takes(one, arguments[i]);
    }
    return false;
  });
}

// What of an argument stands in the key.
uint64_t Code(const TemplateParameter& parameter, uint64_t value) {
  if (parameter.kind != TemplateParameter::kNumber) return value;
  return static_cast<uint64_t>(std::find(parameter.values.begin(), parameter.values.end(), value) -
                               parameter.values.begin());
}

[[noreturn]] void Refuse(const std::string& what, const std::string& given, const std::string& accepted) {
  throw std::invalid_argument(what + " is " + given + "; accepted: " + accepted);
}

void CheckDeclared(const std::string& what, const TemplateKeys& keys) {
  int bits = 0;
  for (const TemplateParameter& one : keys.parameters) {
    if (!one.wrong.empty()) throw std::invalid_argument(what + one.name + ": " + one.wrong);
    bits += one.bits;
  }
  for (const TemplateParameters& choice : keys.choices) {
    for (const TemplateParameter& one : choice) {
      if (!one.wrong.empty()) throw std::invalid_argument(what + one.name + ": " + one.wrong);
    }
  }
  if (bits > kKeyBits) Refuse(what + "bits of a key", std::to_string(bits), "at most " + std::to_string(kKeyBits));
}

std::string Json(const TemplateParameters& parameters) {
  std::string text;
  for (const TemplateParameter& one : parameters) {
    std::string values;
    for (uint64_t value : one.values) values += (values.empty() ? "" : ", ") + std::to_string(value);
    text += std::string(text.empty() ? "" : ", ") + "{\"kind\": " + std::to_string(one.kind) + ", \"name\": \"" +
            one.name + "\", \"bits\": " + std::to_string(one.bits) + ", \"values\": [" + values + "]}";
  }
  return "[" + text + "]";
}

}  // namespace

TemplateParameter TemplateNumber(const char* name, int bits, std::initializer_list<uint64_t> said) {
  const std::vector<uint64_t> all(said);
  TemplateParameter made = {TemplateParameter::kNumber, name, bits, {}, {}};
  auto wrong = [&] {
    made.wrong = "numbers are " + Listed(all) + "; accepted: ASCENDC_TPL_UI_RANGE, count, first and last of each; " +
                 "ASCENDC_TPL_UI_LIST, values; ASCENDC_TPL_UI_MIX, ranges and then values";
    return made;
  };
  if (all.empty() || all[0] > ASCENDC_TPL_UI_MIX) return wrong();
  size_t next = 1;
  if (all[0] != ASCENDC_TPL_UI_LIST) {
    if (all.size() < 2 || all[1] > kMostNumbers || all.size() < 2 + 2 * all[1]) return wrong();
    next = 2 + 2 * all[1];
    for (size_t at = 2; at < next; at += 2) {
      if (all[at] > all[at + 1] || all[at + 1] - all[at] >= kMostNumbers) return wrong();
      for (uint64_t value = all[at]; value <= all[at + 1]; value++) made.values.push_back(value);
    }
  }
  if (all[0] == ASCENDC_TPL_UI_RANGE && next != all.size()) return wrong();
  made.values.insert(made.values.end(), all.begin() + static_cast<ptrdiff_t>(next), all.end());
  if (bits > 0 && bits < kKeyBits && made.values.size() > uint64_t(1) << bits) {
    made.wrong = std::to_string(made.values.size()) + " values are declared; accepted: as many as " +
                 std::to_string(bits) + " bits count";
  }
  return made;
}

// Called while the library is loaded, where nothing may be thrown.
bool AddTemplateKeys(const char* op, const TemplateParameters& parameters,
                     const std::vector<TemplateParameters>& choices) {
  Keys()[op] = {op, parameters, choices};
  return true;
}

uint64_t TemplateKey(const char* op, const std::vector<uint64_t>& arguments) {
  const TemplateKeys& keys = Keys().at(op);
  const std::string what = std::string(op) + ": GET_TPL_TILING_KEY: ";
  if (arguments.size() != keys.parameters.size()) {
    Refuse(what + "number of arguments", std::to_string(arguments.size()), std::to_string(keys.parameters.size()));
  }
  CheckDeclared(what, keys);
  uint64_t key = 0;
  int shift = 0;
  for (size_t i = 0; i < arguments.size(); i++) {
    const TemplateParameter& one = keys.parameters[i];
    if (!Takes(one, arguments[i])) Refuse(what + one.name, std::to_string(arguments[i]), Listed(one.values));
    key |= Code(one, arguments[i]) << shift;
    shift += one.bits;
  }
  const bool there = std::any_of(keys.choices.begin(), keys.choices.end(),
                                 [&](const TemplateParameters& choice) { return Chosen(keys, choice, arguments); });
  if (!there) Refuse(what + "arguments", Listed(arguments), "those that one ASCENDC_TPL_ARGS_SEL has");
  return key;
}

std::string DescribeTemplateKeys() {
  std::string text;
  for (const auto& entry : Keys()) {
    std::string choices;
    for (const TemplateParameters& choice : entry.second.choices)
      choices += (choices.empty() ? "" : ", ") + Json(choice);
    text += (text.empty() ? "" : ", ") + std::string("{\"op\": \"") + entry.first +
            "\", \"parameters\": " + Json(entry.second.parameters) + ", \"choices\": [" + choices + "]}";
  }
  return "[" + text + "]";
}

}  // namespace mco_host
