// The instructions of a text of machine code or PTX, and whether what the capability matrix says of them is so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kiln/target/processor.h"

namespace kiln::test {

class MachineCode {
 public:
  MachineCode(const std::string& text, target::Family family);

  // `pattern` as in target::Capability: "fmadd*", "v_min_i32|v_pk_min_i16", "mulps&addps".
  bool has(std::string_view pattern) const;
  // Each instruction once, for messages.
  std::string mnemonics() const;

 private:
  std::vector<std::string> instructions_;  // "mnemonic operands", one space between words
};

}  // namespace kiln::test
