// NVIDIA's assembler as a library, libnvJitLink.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kiln/codegen/outside.h"
#include "kiln/dsl/result.h"

namespace kiln::codegen::nvptx {

// The library's functions that we call, as its documentation declares them (nvJitLink API reference); all return 0 for
// success.
struct JitLink {
  using Handle = void*;
  int (*create)(Handle*, uint32_t option_count, const char** options);
  int (*destroy)(Handle*);
  int (*add_data)(Handle, int input_type, const void* data, size_t size, const char* name);
  int (*complete)(Handle);
  int (*cubin_size)(Handle, size_t*);
  int (*cubin)(Handle, void*);
  int (*error_log_size)(Handle, size_t*);
  int (*error_log)(Handle, char*);
  int (*info_log_size)(Handle, size_t*);
  int (*info_log)(Handle, char*);
};

// What KILN_NVJITLINK names; else, where KILN_PTXAS names no program, the one that the dynamic linker or CUDA's folder
// has; or nothing. Error: what the variable names is no such library. What is loaded stays.
Result<std::optional<JitLink>> find_jit_link(const Outside& outside = {});

struct Linked {
  std::vector<std::byte> cubin;
  std::string log;
};
// Error: the library's words when it refuses the code; kUnavailable where it is too old, or too new, for the PTX or the
// processor.
Result<Linked> link(const JitLink& library, const std::string& ptx, const std::string& processor, bool line_tables);

}  // namespace kiln::codegen::nvptx
