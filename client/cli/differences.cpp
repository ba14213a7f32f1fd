#include "differences.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "commands.h"
#include "kiln/dsl/facts.h"
#include "kiln/dsl/text.h"

namespace kiln::cli {
namespace {

dsl::ParamFact fact_of(const dsl::CompileRequest& request, size_t param) {
  return param < request.facts.size() ? request.facts[param] : dsl::ParamFact::kNone;
}

std::string line(const std::string& what, const std::string& here, const std::string& there) {
  return what + ": " + here + " here, " + there + " there";
}

std::set<std::string> features_of(const std::string& target) {
  const std::vector<std::string> parts = split(target, ',');
  return {parts.begin() + 1, parts.end()};
}

// A native target names every feature of its CPU: of two of one name, those that differ.
std::string target_difference(const std::string& here, const std::string& there) {
  const std::string name = here.substr(0, here.find(',')), other = there.substr(0, there.find(','));
  if (name != other) return line("target", name, other);
  const std::set<std::string> mine = features_of(here), theirs = features_of(there);
  std::vector<std::string> only_here, only_there;
  std::set_difference(mine.begin(), mine.end(), theirs.begin(), theirs.end(), std::back_inserter(only_here));
  std::set_difference(theirs.begin(), theirs.end(), mine.begin(), mine.end(), std::back_inserter(only_there));
  return line("target, features of " + name, join(only_here), join(only_there));
}

std::string value_text(const dsl::ConstexprValues& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? "none" : std::to_string(found->second);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string one; std::getline(in, one);) {
    const size_t first = one.find_first_not_of(' ');
    out.push_back(first == std::string::npos ? "" : one.substr(first));
  }
  return out;
}

// The kernel as the key has it: without names, for a config that the two have in common.
Result<RequestBytes> key_form(dsl::CompileRequest request, const dsl::CompileRequest& common) {
  request.target = common.target;
  request.constexprs = common.constexprs;
  request.facts = common.facts;
  request.emit = common.emit;
  return dsl::encode_request(request);
}

// The first line in which the key's forms differ, in the authors' names.
std::string kernel_difference(const RequestBytes& here, const RequestBytes& there) {
  std::vector<std::string> bare[2], named[2];
  for (size_t i = 0; i < 2; ++i) {
    const RequestBytes& request = i == 0 ? here : there;
    auto nameless = dsl::decode_request(request.canonical, {}),
         full = dsl::decode_request(request.canonical, request.debug);
    if (!nameless || !full) return "kernel: another text";
    bare[i] = lines_of(dsl::print(nameless->kernel));
    named[i] = lines_of(dsl::print(full->kernel));
  }
  const auto at = static_cast<size_t>(
      std::mismatch(bare[0].begin(), bare[0].end(), bare[1].begin(), bare[1].end()).first - bare[0].begin());
  auto nth = [at](const std::vector<std::string>& lines) {
    return at < lines.size() ? "`" + lines[at] + "`" : std::string("nothing");
  };
  return line("kernel, line " + std::to_string(at + 1) + " of the form that is hashed", nth(named[0]), nth(named[1]));
}

}  // namespace

std::vector<std::string> differences(const dsl::CompileRequest& here, const dsl::CompileRequest& there) {
  std::vector<std::string> out;
  if (here.target != there.target) out.push_back(target_difference(here.target, there.target));
  if (here.emit != there.emit) out.push_back(line("emit", here.emit, there.emit));
  std::set<std::string> names;
  for (const auto* values : {&here.constexprs, &there.constexprs}) {
    for (const auto& [name, value] : *values) names.insert(name);
  }
  for (const std::string& name : names) {
    const std::string a = value_text(here.constexprs, name), b = value_text(there.constexprs, name);
    if (a != b) out.push_back(line("constexpr " + name, a, b));
  }
  for (size_t i = 0; i < std::min(here.kernel.params.size(), there.kernel.params.size()); ++i) {
    const dsl::ParamFact a = fact_of(here, i), b = fact_of(there, i);
    if (a != b) out.push_back(line("fact of " + here.kernel.params[i].name, dsl::fact_name(a), dsl::fact_name(b)));
  }
  auto mine = key_form(here, here), other = key_form(there, here);
  if (mine && other && mine->canonical == other->canonical) return out;
  if (here.kernel.name != there.kernel.name) {
    out.push_back(line("kernel", here.kernel.name, there.kernel.name));
  } else {
    out.push_back(mine && other ? kernel_difference(*mine, *other) : "kernel: it has other constexprs");
  }
  return out;
}

std::string constexprs_text(const dsl::CompileRequest& request) {
  std::vector<std::string> items;
  for (const auto& [name, value] : request.constexprs) items.push_back(name + "=" + std::to_string(value));
  return join(items);
}

std::string facts_text(const dsl::CompileRequest& request) {
  std::vector<std::string> items;
  for (size_t i = 0; i < request.kernel.params.size(); ++i) {
    if (fact_of(request, i) != dsl::ParamFact::kNone)
      items.push_back(request.kernel.params[i].name + "=" + dsl::fact_name(fact_of(request, i)));
  }
  return join(items);
}

}  // namespace kiln::cli
