// From PTX to machine code, where this machine has NVIDIA's assembler: as a library (jit_link.h), else, or where the
// library does not know the version of the PTX or the processor, or would not move registers between warps, as a
// program (ptxas.h). Without either an artifact carries PTX, and the driver assembles it when it is loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kiln/codegen/outside.h"
#include "kiln/dsl/result.h"

namespace kiln::codegen::nvptx {

// What the assembler says of a kernel. Of one of several steps (launches/launch_sequence.h) the most, but spilled
// bytes of all.
struct Resources {
  int registers = 0;  // a thread
  int64_t spill_store_bytes = 0, spill_load_bytes = 0, stack_bytes = 0;
  int64_t static_shared_bytes = 0;
  int64_t assembler_us = 0;
  // Lines that tell of lost speed: matrix instructions that were serialised, register hints that were ignored
  // (ptxas's messages C7500 to C7599).
  std::vector<std::string> warnings;
  bool ignores_registers() const;  // that warps would leave to other warps
  bool operator==(const Resources&) const = default;
};

struct Assembled {
  std::vector<std::byte> cubin;
  Resources resources;
};

// Finds the library, so that processes forked from this one have it loaded. It stays.
void load_assembler(const Outside& outside = {});
// Starts the process that runs ptxas for this one, where ptxas is there: it may be forbidden later.
void start_assembler(const Outside& outside = {});

// Nothing where there is no assembler. An error where the PTX is refused, with the assembler's words.
Result<std::optional<Assembled>> assemble(const std::string& ptx, const std::string& processor, bool line_tables);

// Reads the assembler's log.
Resources read_resources(const std::string& log);

}  // namespace kiln::codegen::nvptx
