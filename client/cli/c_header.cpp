#include "c_header.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "c_launcher.h"
#include "cpu_abi_text.h"
#include "kiln/dsl/expr_json.h"

namespace kiln::cli {
namespace {

using dsl::ElementType;

// 16- and 8-bit floats have no type in C; their bits do.
const char* c_type(ElementType type) {
  switch (type) {
    case ElementType::kI8:
      return "int8_t";
    case ElementType::kI16:
      return "int16_t";
    case ElementType::kI32:
      return "int32_t";
    case ElementType::kI64:
      return "int64_t";
    case ElementType::kI1:
    case ElementType::kU8:
    case ElementType::kF8E4M3:
    case ElementType::kF8E5M2:
      return "uint8_t";
    case ElementType::kU16:
    case ElementType::kF16:
    case ElementType::kBF16:
      return "uint16_t";
    case ElementType::kU32:
      return "uint32_t";
    case ElementType::kU64:
      return "uint64_t";
    case ElementType::kF32:
      return "float";
    case ElementType::kF64:
      return "double";
  }
  return "void";
}

// A name may have points, which C's have not.
std::string identifier(const std::string& name) {
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  return out;
}

// Words of C, C++ and their preprocessors, and macros that compilers and common headers define.
constexpr std::string_view kWords[] = {"alignas",       "alignof",
                                       "and",           "and_eq",
                                       "asm",           "assert",
                                       "auto",          "bitand",
                                       "bitor",         "bool",
                                       "break",         "case",
                                       "catch",         "char",
                                       "char16_t",      "char32_t",
                                       "char8_t",       "class",
                                       "co_await",      "co_return",
                                       "co_yield",      "compl",
                                       "complex",       "concept",
                                       "const",         "const_cast",
                                       "consteval",     "constexpr",
                                       "constinit",     "continue",
                                       "decltype",      "default",
                                       "delete",        "do",
                                       "double",        "dynamic_cast",
                                       "else",          "enum",
                                       "EOF",           "errno",
                                       "explicit",      "export",
                                       "extern",        "false",
                                       "float",         "for",
                                       "friend",        "goto",
                                       "i386",          "if",
                                       "imaginary",     "INFINITY",
                                       "inline",        "int",
                                       "linux",         "long",
                                       "mutable",       "namespace",
                                       "NAN",           "new",
                                       "noexcept",      "noreturn",
                                       "not",           "not_eq",
                                       "NULL",          "nullptr",
                                       "operator",      "or",
                                       "or_eq",         "private",
                                       "protected",     "public",
                                       "register",      "reinterpret_cast",
                                       "requires",      "restrict",
                                       "return",        "short",
                                       "signed",        "sizeof",
                                       "static",        "static_assert",
                                       "static_cast",   "stderr",
                                       "stdin",         "stdout",
                                       "struct",        "switch",
                                       "template",      "this",
                                       "thread_local",  "throw",
                                       "true",          "try",
                                       "typedef",       "typeid",
                                       "typename",      "typeof",
                                       "typeof_unqual", "union",
                                       "unix",          "unsigned",
                                       "using",         "virtual",
                                       "void",          "volatile",
                                       "wchar_t",       "while",
                                       "xor",           "xor_eq"};

// Whether C, C++ or <stdint.h> has the name for itself.
bool is_taken(const std::string& name) {
  if (std::ranges::find(kWords, name) != std::end(kWords)) return true;
  const auto begins = [&](auto... starts) { return (name.starts_with(starts) || ...); };
  const auto ends = [&](auto... tails) { return (name.ends_with(tails) || ...); };
  return (begins("int", "uint", "size", "ptrdiff") && ends("_t")) ||
         (begins("INT", "UINT", "SIZE", "PTRDIFF", "SIG", "WCHAR", "WINT") && ends("_MAX", "_MIN", "_C", "_WIDTH"));
}

// Whether it begins as the names of compilers or of this header do, macros among them.
bool begins_as_others(const std::string& name) {
  return name.starts_with("KILN_") || name.starts_with("kiln_") || name.starts_with("__") ||
         (name.size() > 1 && name[0] == '_' && std::isupper(static_cast<unsigned char>(name[1])));
}

// Names of the struct's fields, one a parameter: its own where C can have it, else one made of it.
std::vector<std::string> field_names(const dsl::Kernel& kernel) {
  std::vector<std::string> out;
  std::set<std::string> used;
  const auto fits = [](const std::string& name) {
    return identifier(name) == name && !is_taken(name) && !begins_as_others(name);
  };
  for (const dsl::Param& param : kernel.params) {
    if (fits(param.name)) used.insert(param.name);
  }
  for (const dsl::Param& param : kernel.params) {
    std::string name = param.name;
    if (!fits(name)) {
      name = (begins_as_others(name) ? "p_" : "") + identifier(name);
      while (is_taken(name) || !used.insert(name).second) name += '_';
    }
    out.push_back(name);
  }
  return out;
}

std::string fields(const dsl::Kernel& kernel, const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    const dsl::Param& param = kernel.params[i];
    std::string type = c_type(param.type.element);
    if (param.type.pointer) type = (param.readonly ? "const " : "") + type + "*";
    const std::string own = names[i] == param.name ? "" : param.name + ": ";
    out += "  " + type + " " + names[i] + ";  /* " + own + to_string(param.type, kernel.expr_names()) + " */\n";
  }
  return out.empty() ? "  char nothing;\n" : out;
}

std::string grid_text(const abi::Metadata& metadata) {
  std::string out;
  for (const std::string& extent : metadata.grid) out += (out.empty() ? "" : " x ") + extent;
  return out;
}

std::string declaration(const std::string& entry) {
  return "int32_t " + identifier(entry) +
         "(const void* params, const uint32_t grid[3], uint64_t first, uint64_t last, kiln_ctx* ctx);\n";
}

// The entries; of a plan all of them, with how to call them.
std::string entries(const std::string& name, const abi::Metadata& metadata) {
  if (metadata.plan.empty()) return declaration(metadata.entry) + "\n";
  std::string out =
      "/* A launch runs all programs of each entry, in this order. The grid of an entry is the kernel's with\n"
      " * grid[0] times the entry's number of chunks; the workspace has so many bytes a program of the\n"
      " * kernel's grid. */\n";
  out += "enum { " + name + "_workspace_bytes = " + std::to_string(metadata.workspace_bytes.value_or(0)) + " };\n";
  for (const abi::LaunchStep& stage : metadata.plan) {
    out += "/* chunks: " + std::to_string(stage.chunks) + " */\n";
    out += declaration(stage.entry);
  }
  return out + "\n";
}

// What launches of the artifact's config must meet; what all of them meet is left out.
std::vector<LaunchCondition> conditions(const dsl::Kernel& kernel, const abi::Metadata& metadata) {
  dsl::Bindings config;
  for (int64_t value : metadata.config) config.constexprs.emplace_back(value);
  std::vector<LaunchCondition> out;
  for (const dsl::Condition& condition : kernel.constraints) {
    const dsl::Expr left = condition.expr.substitute(config);
    if (left.as_constant().value_or(0) != 0) continue;
    out.push_back({dsl::expr_to_json(left), dsl::to_string(condition.expr, kernel.expr_names())});
  }
  return out;
}

}  // namespace

std::vector<std::string> entries_of(const abi::Metadata& metadata) {
  if (metadata.plan.empty()) return {metadata.entry};
  std::vector<std::string> out;
  for (const abi::LaunchStep& stage : metadata.plan) out.push_back(stage.entry);
  return out;
}

std::string c_header(const dsl::Kernel& kernel, const abi::Metadata& metadata) {
  const std::string name = identifier(kernel.name);
  const std::vector<std::string> names = field_names(kernel);
  // The CPU's name; its list of features is long.
  std::string out = "/* Kernel `" + name + "` for " + metadata.target.substr(0, metadata.target.find(',')) +
                    ".\n * Grid: " + grid_text(metadata) +
                    ". One call runs the programs first … last-1, program = x + grid[0]*(y + grid[1]*z),\n"
                    " * on the calling thread; calls for disjoint ranges may run at the same time.\n"
                    " * Zero is success; anything else is an error code. */\n";
  out += "#ifndef KILN_KERNEL_" + name + "_H\n#define KILN_KERNEL_" + name +
         "_H\n\n#include <stdint.h>\n#include <stdlib.h>\n#include <string.h>\n#ifdef _OPENMP\n#include "
         "<omp.h>\n#endif\n\n";
  // Its guard lets several of these headers, and kiln/abi/cpu_abi.h itself, go together.
  out += kCpuAbiText;
  out += "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
  out += "\ntypedef struct " + name + "_params {\n" + fields(kernel, names) + "} " + name + "_params;\n\n";
  out += "enum { " + name + "_scratch_bytes = " + std::to_string(metadata.scratch_bytes.value_or(0)) +
         " };  /* that each thread needs */\n\n";
  out += entries(name, metadata);
  out += c_launcher(name, names, conditions(kernel, metadata), metadata);
  out += "#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
  return out;
}

}  // namespace kiln::cli
