// Kernels whose code somebody else wrote: LLVM IR, PTX, or assembly of AMD's GPUs. A kernel without ops declares one:
// its name, parameters and grid, and what its launches must meet.
//
//   auto declared = kernel("softshrink", {"x", "out", "n"},
//                          [](Ptr<const f32>, Ptr<f32>, i32 n) { grid(cdiv(n, 256)); });
//   auto fn = client.get_custom(declared, {.form = CodeForm::kPtx, .text = ptx, .threads = 256}, {.target = "cuda"});
//
// docs/use/custom-kernels.md.
#pragma once

#include <optional>
#include <string_view>

#include "kiln/dsl/ir.h"
#include "kiln/dsl/request.h"
#include "kiln/dsl/result.h"

namespace kiln::dsl {

enum class CodeForm : uint8_t {
  kLlvmIr,       // for any target; not bitcode
  kPtx,          // "cuda"
  kAmdAssembly,  // "amd"; with its `.amdhsa_kernel` and metadata, as LLVM's assembler takes it
};
inline constexpr size_t kCodeForms = 3;
// "LLVM IR", for messages.
std::string_view name_of(CodeForm form);
// "llvm", "ptx", "amd", as texts have it.
std::string_view word_of(CodeForm form);
std::optional<CodeForm> parse_code_form(std::string_view word);

// The function takes the declaration's parameters in their order: pointers as `ptr`, of GPUs perhaps of address space
// 1; numbers by value as LLVM's and PTX's types of their width, i1 as a byte. On a CPU it is run once for each program
// of the grid, and takes the program's three numbers behind the parameters, as i32. On a GPU the grid is one of blocks
// of `threads`.
struct CustomCode {
  CodeForm form = CodeForm::kLlvmIr;
  std::string text;
  std::string entry = {};    // the function's name in it; empty: the kernel's
  std::string file = {};     // where it is from, for messages
  int64_t threads = 1;       // of a block, along its first axis; GPUs
  int64_t shared_bytes = 0;  // of shared memory that the launch adds to what the code declares; GPUs

  bool operator==(const CustomCode&) const = default;
};

struct CustomRequest {
  Kernel declaration;
  CustomCode code;
  std::string target;  // resolved

  const std::string& entry() const { return code.entry.empty() ? declaration.name : code.entry; }
};

// Whether a kernel does nothing: it has no ops but such as compute values.
bool only_declares(const Kernel& kernel);
// The kernel without what its code alone depends on: its ops, and what a tuner may choose.
Kernel declaration_of(const Kernel& kernel);

// Error: a declaration with ops or constexprs, an empty text, or one of more than 8 MiB, threads of no block.
Result<void> check_custom_request(const CustomRequest& request);
// As bytes it is a compile request like that of any kernel. The declaration's names count, and `file` does not.
// Error: as of check_custom_request().
Result<RequestBytes> encode_custom_request(const CustomRequest& request);
// Whether the canonical section is one of these.
bool is_custom_request(std::span<const std::byte> canonical);
// Survives any bytes; the declaration comes back verified.
Result<CustomRequest> decode_custom_request(std::span<const std::byte> canonical, std::span<const std::byte> debug);

}  // namespace kiln::dsl
