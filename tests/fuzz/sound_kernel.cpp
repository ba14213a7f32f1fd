#include "sound_kernel.h"

#include "check.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/canonical.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"

namespace kiln::fuzz {
namespace {

using Bytes = std::vector<std::byte>;

void check_verifies(const dsl::Kernel& kernel, const char* promise) {
  if (auto valid = dsl::verify(kernel); !valid)
    check(false, promise, valid.error().message + "\n" + dsl::print(kernel));
}

// The hashed half of a kernel's bytes: what is left when names and places are taken away.
Bytes canonical_section(const dsl::Kernel& kernel) {
  Bytes bytes = dsl::encode_kernel(kernel);
  size_t size = 0;
  for (size_t i = 0; i < 4; ++i) size |= static_cast<size_t>(bytes[i]) << (8 * i);
  bytes.resize(4 + size);
  return bytes;
}

void check_text(const dsl::Kernel& kernel, const std::string& text) {
  const auto again = dsl::parse(text, "printed.kiln");
  expect(again, "what print writes parses", text);
  check_verifies(*again, "what print writes verifies");
  check(dsl::print(*again) == text, "print and parse are inverse", text + "\n" + dsl::print(*again));
  check(canonical_section(*again) == canonical_section(kernel), "a printed kernel is the same kernel", text);
}

void check_canonical(const dsl::Kernel& kernel, const std::string& text) {
  const dsl::Kernel once = dsl::canonicalise(kernel);
  check_verifies(once, "a canonical kernel is sound");
  const std::string canonical = dsl::print(once);
  check(dsl::print(dsl::canonicalise(once)) == canonical, "canonicalising twice is canonicalising once", text);

  const Bytes bytes = dsl::encode_kernel(kernel);
  const auto back = dsl::decode_kernel(bytes);
  expect(back, "what encode_kernel writes decodes", text);
  check(dsl::print(*back) == canonical, "a decoded kernel is the canonical one", canonical + "\n" + dsl::print(*back));
  check(dsl::encode_kernel(*back) == bytes, "encoding a decoded kernel gives the same bytes", text);
}

void check_request(const dsl::Kernel& kernel, const std::string& text) {
  const auto bytes = dsl::encode_request({.kernel = kernel, .target = "cpu:fuzz", .constexprs = {}, .facts = {}});
  if (!bytes) return check_refusal(bytes.error());  // a constexpr without a default
  const auto back = dsl::decode_request(bytes->canonical, bytes->debug);
  expect(back, "what encode_request writes decodes", text);
  const auto again = dsl::encode_request(*back);
  expect(again, "a decoded request encodes", text);
  check(request_key("fuzz", again->canonical) == request_key("fuzz", bytes->canonical),
        "a decoded request has the same key", text);
  // A worker may be given no debug section.
  expect(dsl::decode_request(bytes->canonical, {}), "a request decodes without its debug section", text);
}

}  // namespace

void check_sound_kernel(const dsl::Kernel& kernel) {
  const std::string text = dsl::print(kernel);
  check_text(kernel, text);
  check_canonical(kernel, text);
  check_request(kernel, text);
  if (auto concrete = dsl::instantiate(kernel, {}, {}); concrete)
    check_verifies(*concrete, "an instantiated kernel is sound");
  else
    check_refusal(concrete.error());
}

}  // namespace kiln::fuzz
