// The rows of the capability matrix as rules: of each family a list, of which the first that fits a cell counts.
#pragma once

#include "kiln/target/capabilities.h"

namespace kiln::target {

struct Rule {
  // Words, with spaces: an op ("add"), an op of some choices ("math.floor,ceil", "cast.f32"), all ops of elementary
  // functions but these ("math").
  const char* forms;
  // Element types, or groups of them: ints (without i1), signed, unsigned, floats, small (floats below 32 bits), f8,
  // all.
  const char* types;
  // Of which processors; null: of all of the family.
  bool (*holds)(const Processor& processor);
  Support support;
  const char* instruction;  // Capability
  const char* how;
};

// Of all families, before and behind those of one.
std::span<const Rule> common_rules();
std::span<const Rule> general_rules();

std::span<const Rule> x86_rules();
std::span<const Rule> aarch64_rules();
std::span<const Rule> sve_rules();  // before them
std::span<const Rule> nvidia_rules();
std::span<const Rule> amd_rules();
// In the order in which they are asked: common, of the family, general.
std::vector<std::span<const Rule>> rules_of(Family family);

// The first that fits a cell that the language has; null: none does.
const Rule* rule_for(const OpForm& form, dsl::ElementType element, const Processor& processor);

// A word of a rule that names nothing; "" where all do.
std::string unknown_word(const Rule& rule);

}  // namespace kiln::target
