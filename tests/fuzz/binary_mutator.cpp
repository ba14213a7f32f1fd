// libFuzzer's hook for binary_target.cpp: half of the mutations are of the tree, half libFuzzer's own of the bytes.
#include <cstring>
#include <random>

#include "cbor_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using Bytes = std::vector<std::byte>;

void append_section(Bytes& out, std::span<const std::byte> section) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<std::byte>(section.size() >> shift & 0xff));
  out.insert(out.end(), section.begin(), section.end());
}

Bytes mutated(std::span<const std::byte> input, uint32_t seed) {
  using namespace kiln::fuzz;
  Bytes out = {input[0]};
  const auto reader = std::to_integer<uint8_t>(input[0]);
  const auto record = input.subspan(1);
  if (reader == 1) {
    const Bytes changed = mutate_record(record, seed);
    out.insert(out.end(), changed.begin(), changed.end());
    return out;
  }
  const Sections sections = split_sections(record);
  // A kernel's second section has a length of its own.
  const auto debug = reader == 0 ? split_sections(sections.debug).canonical : sections.debug;
  const bool change_debug = seed % 4 == 0;
  append_section(out, change_debug ? Bytes(sections.canonical.begin(), sections.canonical.end())
                                   : mutate_record(sections.canonical, seed));
  const Bytes second = change_debug ? mutate_record(debug, seed) : Bytes(debug.begin(), debug.end());
  if (reader == 0)
    append_section(out, second);
  else
    out.insert(out.end(), second.begin(), second.end());
  return out;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  if (size < 2 || seed % 2) return LLVMFuzzerMutate(data, size, max_size);
  const Bytes out = mutated(std::as_bytes(std::span(data, size)), seed / 2);
  if (out.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, out.data(), out.size());
  return out.size();
}
