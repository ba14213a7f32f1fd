// Any bytes as the binary form of a graph: an error, or a graph that keeps all promises and that these bytes are the
// one encoding of.
#include <algorithm>

#include "check.h"
#include "kiln/graph/binary.h"
#include "sound_graph.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kiln;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto graph = graph::decode(bytes);
  if (!graph) {
    fuzz::check_refusal(graph.error());
    return 0;
  }
  fuzz::check(std::ranges::equal(graph::encode(*graph), bytes), "a graph has one encoding");
  fuzz::check_sound_graph(*graph);
  return 0;
}
