// Any bytes as the text of a graph: an error that names its place, or a graph that keeps all promises.
#include <algorithm>

#include "check.h"
#include "kiln/graph/text.h"
#include "sound_graph.h"

namespace kiln::fuzz {
namespace {

// "FILE:LINE:COLUMN: …", with lines and columns from 1 on.
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
  return message.starts_with(": ");
}

void run(std::string_view text) {
  // A name that is no file: diagnostics show lines of files that exist.
  constexpr std::string_view kFile = "no-such-directory/fuzz.kg";
  const auto graph = graph::parse(text, kFile);
  if (graph) return check_sound_graph(*graph);
  check_refusal(graph.error());
  check(names_its_place(graph.error().message, kFile), "an error names its place", graph.error().message);
}

}  // namespace
}  // namespace kiln::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kiln::fuzz::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
