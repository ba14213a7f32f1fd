// Any bytes as the text of a kernel: an error that names its place, or a kernel that keeps all promises.
#include <algorithm>

#include "check.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"
#include "sound_kernel.h"

namespace kiln::fuzz {
namespace {

// "FILE:LINE:COLUMN: error: …", with lines and columns from 1 on.
bool names_its_place(std::string_view message, std::string_view file) {
  if (!message.starts_with(file)) return false;
  message.remove_prefix(file.size());
  for (int number = 0; number < 2; ++number) {
    if (!message.starts_with(':')) return false;
    message.remove_prefix(1);
    const size_t digits = std::min(message.find_first_not_of("0123456789"), message.size());
    if (digits == 0 || message[0] == '0') return false;
    message.remove_prefix(digits);
  }
  return message.starts_with(": error: ");
}

void run(std::string_view text) {
  // A name that is no file: diagnostics show lines of files that exist.
  constexpr std::string_view kFile = "no-such-directory/fuzz.kiln";
  const auto kernel = dsl::parse(text, kFile);
  if (!kernel) {
    check_refusal(kernel.error());
    check(names_its_place(kernel.error().message, kFile), "a syntax error names its place", kernel.error().message);
    return;
  }
  if (auto valid = dsl::verify(*kernel); !valid)
    check_refusal(valid.error());
  else
    check_sound_kernel(*kernel);
}

}  // namespace
}  // namespace kiln::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kiln::fuzz::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
