#include "compile_once.h"

#include <map>

#include "kiln/dsl/text.h"

namespace kiln::test {
namespace {

constexpr size_t kMostBytes = 64 << 20;

// All that compile() sees, lines of the source apart.
std::string name_of(const dsl::Kernel& kernel, const dsl::ConstexprValues& constexprs, const dsl::Facts& facts,
                    const std::string& target) {
  std::string out = target + "\n";
  for (const auto& [name, value] : constexprs) out += name + "=" + std::to_string(value) + " ";
  for (const dsl::ParamFact fact : facts) out += std::to_string(static_cast<int>(fact)) + " ";
  return out + "\n" + dsl::print(kernel);
}

}  // namespace

Result<Artifact> compile_once(const dsl::Kernel& kernel, const dsl::ConstexprValues& constexprs,
                              const dsl::Facts& facts, const std::string& target) {
  static std::map<std::string, Artifact> made;
  static size_t bytes = 0;
  const std::string name = name_of(kernel, constexprs, facts, target);
  if (const auto found = made.find(name); found != made.end()) return found->second;
  auto artifact = compile(kernel, constexprs, facts, target);
  if (!artifact) return artifact;
  bytes += name.size() + artifact->code.size();
  if (bytes > kMostBytes) {
    made.clear();
    bytes = name.size() + artifact->code.size();
  }
  made.emplace(name, *artifact);
  return artifact;
}

}  // namespace kiln::test
