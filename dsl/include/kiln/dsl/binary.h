// The binary form: CBOR of nlohmann_json, in a canonical section (hashed) and a debug section (names and locations).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kiln/dsl/ir.h"
#include "kiln/dsl/request.h"

namespace kiln::dsl {

// A kernel with everything that decides the code compiled for it.
struct CompileRequest {
  Kernel kernel;               // canonical
  std::string target;          // resolved: "cpu:znver5,+avx512f,…", never "cpu"
  ConstexprValues constexprs;  // all of them, defaults filled in
  Facts facts;
  std::string emit = "so";  // what the artifact's code is: "so", or for people "llvm", "asm", "obj"
};

// Canonicalises the kernel, fills in defaults. Error when a constexpr has no value or a name is unknown.
Result<RequestBytes> encode_request(const CompileRequest& request);
// Survives any bytes; the kernel comes back verified. Without a debug section parameters and
// constexprs are named by position (arg0, C0) and values are nameless, without locations.
Result<CompileRequest> decode_request(std::span<const std::byte> canonical, std::span<const std::byte> debug);

// A kernel alone, both sections in one blob; for files and tests.
std::vector<std::byte> encode_kernel(const Kernel& kernel);
Result<Kernel> decode_kernel(std::span<const std::byte> bytes);

}  // namespace kiln::dsl
