// libFuzzer's hook for plan_target.cpp: half of the mutations are of the tree, kernels and graphs in it included, half
// libFuzzer's own of the bytes.
#include <cstring>

#include "cbor_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

std::vector<std::byte> mutated(std::span<const std::byte> input, uint32_t seed) {
  using namespace kiln::fuzz;
  std::vector<std::byte> out = {input[0]};
  const auto append = [&](std::span<const std::byte> bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); };
  const auto record = input.subspan(1);
  if (std::to_integer<uint8_t>(input[0]) < 2) {
    append(mutate_record(record, seed));
  } else {
    append(mutate_sections(record, seed));
  }
  return out;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  if (size < 2 || seed % 2) return LLVMFuzzerMutate(data, size, max_size);
  const auto out = mutated(std::as_bytes(std::span(data, size)), seed / 2);
  if (out.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, out.data(), out.size());
  return out.size();
}
