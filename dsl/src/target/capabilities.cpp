#include "kiln/target/capabilities.h"

#include <algorithm>
#include <array>

#include "kiln/dsl/kept.h"
#include "target/parts.h"
#include "target/rules.h"

namespace kiln::target {
namespace {

using dsl::ElementType;
using dsl::OpCode;

using TypeMask = uint32_t;
TypeMask mask_of(ElementType element) { return TypeMask{1} << static_cast<int>(element); }

// Of a type or a group; 0: there is none of this name.
TypeMask types_of(std::string_view word) {
  TypeMask out = 0;
  for (int i = 0; i < dsl::kElementTypeCount; ++i) {
    const auto element = static_cast<ElementType>(i);
    const dsl::ElementTypeInfo& info = dsl::info(element);
    const bool is_int = !info.is_float && element != ElementType::kI1;
    const bool fits = word == info.name || word == "all" || (word == "ints" && is_int) ||
                      (word == "signed" && is_int && info.is_signed) ||
                      (word == "unsigned" && is_int && !info.is_signed) || (word == "floats" && info.is_float) ||
                      (word == "small" && dsl::is_small_float(element)) ||
                      (word == "f8" && info.is_float && info.bits == 8);
    if (fits) out |= mask_of(element);
  }
  return out;
}

// By places in op_forms().
std::vector<bool> forms_of(std::string_view word) {
  const std::string_view op = word.substr(0, word.find('.'));
  const std::vector<std::string_view> choices = parts(word.substr(std::min(op.size() + 1, word.size())), ',');
  std::vector<bool> out;
  for (const OpForm& form : op_forms()) {
    const std::string name = to_string(form);
    const std::string_view choice = std::string_view(name).substr(std::min(name.find(' ') + 1, name.size()));
    const bool fits =
        dsl::info(form.op).name == op && (choices.empty() || std::ranges::find(choices, choice) != choices.end());
    out.push_back(fits);
  }
  return out;
}

bool has_any(const std::vector<bool>& flags) { return std::ranges::find(flags, true) != flags.end(); }

size_t index_of(const OpForm& form) {
  return static_cast<size_t>(std::ranges::find(op_forms(), form) - op_forms().begin());
}

// The rules that speak of a cell, in their order.
class Table {
 public:
  explicit Table(Family family) {
    for (std::span<const Rule> rules : rules_of(family)) {
      for (const Rule& rule : rules) add(rule);
    }
  }

  const std::vector<const Rule*>& at(const OpForm& form, ElementType element) const {
    return cells_[index_of(form)][static_cast<size_t>(element)];
  }

 private:
  void add(const Rule& rule) {
    TypeMask types = 0;
    for (std::string_view word : parts(rule.types, ' ')) types |= types_of(word);
    for (std::string_view word : parts(rule.forms, ' ')) {
      const std::vector<bool> forms = forms_of(word);
      for (size_t form = 0; form < forms.size(); ++form) {
        if (forms[form]) add(rule, form, types);
      }
    }
  }
  void add(const Rule& rule, size_t form, TypeMask types) {
    for (int i = 0; i < dsl::kElementTypeCount; ++i) {
      if ((types & mask_of(static_cast<ElementType>(i))) != 0) cells_[form][static_cast<size_t>(i)].push_back(&rule);
    }
  }

  using Row = std::array<std::vector<const Rule*>, dsl::kElementTypeCount>;
  std::vector<Row> cells_ = std::vector<Row>(op_forms().size());
};

const Table& table_of(Family family) {
  static const dsl::Kept tables =
      std::vector<Table>{Table(Family::kX86), Table(Family::kAarch64), Table(Family::kNvidia), Table(Family::kAmd)};
  return (*tables)[static_cast<size_t>(family)];
}

// What a reduction or scan combines two elements by; none of a custom one, and of those that look for places.
std::optional<OpCode> combination_of(const OpForm& form) {
  if (form.op != OpCode::kReduce && form.op != OpCode::kScan) return std::nullopt;
  switch (static_cast<dsl::ReduceKind>(form.choice)) {
    case dsl::ReduceKind::kSum:
      return OpCode::kAdd;
    case dsl::ReduceKind::kProd:
      return OpCode::kMul;
    case dsl::ReduceKind::kMin:
      return OpCode::kMin;
    case dsl::ReduceKind::kMax:
      return OpCode::kMax;
    case dsl::ReduceKind::kAnd:
      return OpCode::kAnd;
    case dsl::ReduceKind::kOr:
      return OpCode::kOr;
    case dsl::ReduceKind::kXor:
      return OpCode::kXor;
    default:
      return std::nullopt;
  }
}

// Sums and products of small floats accumulate in f32 (docs/reference/ops.md). Elements meet in other code than a
// tile's, so that no instruction is claimed.
Capability combined(OpCode by, ElementType element, const Processor& processor) {
  const bool accumulates = by == OpCode::kAdd || by == OpCode::kMul;
  if (accumulates && dsl::is_small_float(element)) return {Support::kEmulated, "", "through f32"};
  Capability out = capability({by}, element, processor);
  out.instruction = "";
  return out;
}

}  // namespace

std::string_view to_string(Support support) {
  static constexpr std::string_view kNames[] = {"native", "emulated", "refused", "absent"};
  return kNames[static_cast<size_t>(support)];
}

std::string unknown_word(const Rule& rule) {
  for (std::string_view word : parts(rule.types, ' ')) {
    if (types_of(word) == 0) return std::string(word);
  }
  for (std::string_view word : parts(rule.forms, ' ')) {
    const std::string op(word.substr(0, word.find('.')));
    for (std::string_view choice : parts(word.substr(std::min(op.size(), word.size())), ',')) {
      const std::string one = choice.starts_with('.') ? op + std::string(choice) : op + "." + std::string(choice);
      if (!has_any(forms_of(one))) return one;
    }
    if (!has_any(forms_of(word))) return std::string(word);
  }
  return "";
}

std::vector<std::span<const Rule>> rules_of(Family family) {
  switch (family) {
    case Family::kX86:
      return {common_rules(), x86_rules(), general_rules()};
    case Family::kAarch64:
      return {common_rules(), sve_rules(), aarch64_rules(), general_rules()};
    case Family::kNvidia:
      return {common_rules(), nvidia_rules(), general_rules()};
    case Family::kAmd:
      break;
  }
  return {common_rules(), amd_rules(), general_rules()};
}

const Rule* rule_for(const OpForm& form, ElementType element, const Processor& processor) {
  for (const Rule* rule : table_of(processor.family).at(form, element)) {
    if (rule->holds == nullptr || rule->holds(processor)) return rule;
  }
  return nullptr;
}

Capability capability(const OpForm& form, ElementType element, const Processor& processor) {
  if (auto instance = instance_of(form, element); !instance) {
    return {Support::kAbsent, "", instance.error().message};
  }
  if (const auto by = combination_of(form)) return combined(*by, element, processor);
  if (const Rule* rule = rule_for(form, element, processor)) return {rule->support, rule->instruction, rule->how};
  return {Support::kEmulated, "", "in a way that the table does not say"};  // a test finds none
}

std::vector<std::string_view> instructions_elsewhere(const OpForm& form, ElementType element, Family family) {
  std::vector<std::string_view> out;
  for (const Rule* rule : table_of(family).at(form, element)) {
    const std::string_view instruction = rule->instruction;
    if (rule->support == Support::kNative && !instruction.empty()) out.push_back(instruction);
    if (rule->holds == nullptr) break;  // none behind it counts
  }
  return out;
}

}  // namespace kiln::target
