// LLVM's disassembler for one processor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kiln/dsl/result.h"

namespace kiln::amdgcn_emulator {

class Disassembler {
 public:
  static Result<Disassembler> create(const std::string& processor, bool wave64);
  ~Disassembler();
  Disassembler(Disassembler&&) noexcept;

  struct Printed {
    unsigned bytes = 0;  // 0: no instruction
    std::string text;
  };
  Printed print(std::span<const uint8_t> bytes, uint64_t address);

 private:
  struct State;
  explicit Disassembler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kiln::amdgcn_emulator
