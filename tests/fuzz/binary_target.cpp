// Any bytes as the binary form of a kernel or of a compile request: an error, or a kernel that keeps all promises.
//
// The first byte chooses the reader: 0 a kernel's blob, 1 a request's canonical section alone, else both sections of a
// request, the first behind its length. write_seeds.cpp writes all three.
#include <algorithm>

#include "cbor_mutator.h"
#include "check.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/verify.h"
#include "sound_kernel.h"

namespace kiln::fuzz {
namespace {

using Bytes = std::span<const std::byte>;

void run_kernel(Bytes bytes) {
  const auto kernel = dsl::decode_kernel(bytes);
  if (!kernel) return check_refusal(kernel.error());
  check(dsl::verify(*kernel).ok(), "a decoded kernel is verified");
  check_sound_kernel(*kernel);
}

void run_request(Bytes canonical, Bytes debug) {
  const auto request = dsl::decode_request(canonical, debug);
  if (!request) return check_refusal(request.error());
  check(dsl::verify(request->kernel).ok(), "a decoded request's kernel is verified");
  const auto bytes = dsl::encode_request(*request);
  expect(bytes, "a decoded request encodes");
  const auto again = dsl::decode_request(bytes->canonical, bytes->debug);
  expect(again, "what encode_request writes decodes");
  const auto twice = dsl::encode_request(*again);
  expect(twice, "a request encodes again");
  check(twice->canonical == bytes->canonical, "encoding a decoded request gives the same bytes");
  // What a worker does next.
  const auto concrete = dsl::instantiate(request->kernel, request->constexprs, request->facts);
  if (!concrete) check_refusal(concrete.error());
  check_sound_kernel(request->kernel);
}

void run(Bytes bytes) {
  if (bytes.empty()) return;
  const auto reader = std::to_integer<uint8_t>(bytes[0]);
  bytes = bytes.subspan(1);
  if (reader == 0) return run_kernel(bytes);
  if (reader == 1) return run_request(bytes, {});
  const Sections sections = split_sections(bytes);
  run_request(sections.canonical, sections.debug);
}

}  // namespace
}  // namespace kiln::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kiln::fuzz::run(std::as_bytes(std::span(data, size)));
  return 0;
}
