// The capability matrix: how each op of each element type is computed on each target. The compiler refuses by it, the
// command line prints it, and a test holds it against the code that is made (tests/codegen/capabilities).
// docs/reference/capabilities.md says what the words mean.
#pragma once

#include "kiln/target/op_form.h"
#include "kiln/target/processor.h"

namespace kiln::target {

enum class Support : uint8_t {
  kNative,    // by an instruction of the processor for this op and type
  kEmulated,  // by others: through another type, in several steps, in a loop
  kRefused,   // by the compiler of this target
  kAbsent,    // the language has no such op of this type
};
// "native", "emulated", "refused", "absent"
std::string_view to_string(Support support);

struct Capability {
  Support support = Support::kNative;
  // What a native op's code has, or an emulated one's is made of: the beginning of an instruction, `*` for any letters,
  // alternatives with `|` between them, `&` between those that are there together. "" where nothing is claimed.
  std::string_view instruction;
  std::string how;  // it is emulated, or why there is none; of native ones mostly ""
};

// Of the op with default attributes, under default options.
Capability capability(const OpForm& form, dsl::ElementType element, const Processor& processor);

// What native rules say of other processors of the family: instructions that code for this one does not have where the
// op is emulated.
std::vector<std::string_view> instructions_elsewhere(const OpForm& form, dsl::ElementType element, Family family);

}  // namespace kiln::target
