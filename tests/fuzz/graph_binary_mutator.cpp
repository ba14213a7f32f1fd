// libFuzzer's hook for graph_binary_target.cpp: half of the mutations are of the tree, half libFuzzer's own of the
// bytes.
#include <cstring>

#include "cbor_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  if (size < 2 || seed % 2) return LLVMFuzzerMutate(data, size, max_size);
  const auto out = kiln::fuzz::mutate_record(std::as_bytes(std::span(data, size)), seed / 2);
  if (out.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, out.data(), out.size());
  return out.size();
}
