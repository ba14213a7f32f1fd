// The binary form: CBOR of nlohmann_json, in a canonical section (hashed) and a debug section (names and locations).
#pragma once

#include <cstddef>
#include <memory>
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

// Whether code or launches of the kernel name source lines, so that a cache must not serve one author the lines of
// another: locations are part of its identity.
bool reports_lines(const Kernel& kernel);

// Canonicalises the kernel, fills in defaults. Error when a constexpr has no value or a name is unknown.
Result<RequestBytes> encode_request(const CompileRequest& request);

// The same bytes for many requests of one kernel, which is verified and encoded once. Immutable: any thread may ask it.
class RequestEncoder {
 public:
  // Error for a kernel that does not verify.
  static Result<RequestEncoder> create(std::shared_ptr<const Kernel> kernel);
  // Of bytes of encode_kernel(), which are taken as they are; whoever compiles verifies them. `kernel` may lack its
  // ops. Error where they are no two sections. Not for kernels that reports_lines().
  static Result<RequestEncoder> of_encoded(std::shared_ptr<const Kernel> kernel, std::span<const std::byte> encoded);

  // As encode_request() of the kernel with these.
  Result<RequestBytes> encode(const std::string& target, const ConstexprValues& constexprs, const Facts& facts,
                              const std::string& emit = CompileRequest{}.emit) const;

 private:
  RequestEncoder() = default;

  std::shared_ptr<const Kernel> kernel_;
  std::vector<std::byte> head_;   // the canonical section's fields that the kernel decides
  std::vector<std::byte> lines_;  // its last field; empty for a kernel whose launches name no source lines
  std::vector<std::byte> debug_;
};
// Survives any bytes; the kernel comes back verified. Without a debug section parameters and
// constexprs are named by position (arg0, C0) and values are nameless, without locations.
Result<CompileRequest> decode_request(std::span<const std::byte> canonical, std::span<const std::byte> debug);

// A kernel alone, both sections in one blob; for files and tests.
std::vector<std::byte> encode_kernel(const Kernel& kernel);
Result<Kernel> decode_kernel(std::span<const std::byte> bytes);

}  // namespace kiln::dsl
