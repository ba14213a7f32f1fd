// Mutations of CBOR as a tree, so that libFuzzer gets past the reader's first checks: a flipped byte of CBOR is mostly
// no CBOR any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kiln::fuzz {

// [u32 length ‖ canonical ‖ rest]; a length that is too large means all of it. `debug` has no length in a request; in
// a kernel's blob it has one, which stays part of `debug` here.
struct Sections {
  std::span<const std::byte> canonical, debug;
};
Sections split_sections(std::span<const std::byte> bytes);

// Changes one node of the record at random: another number, an entry dropped, doubled, or taken from elsewhere; of
// bytes that are a record or sections themselves one node of these. Gives the bytes as they were when they are no CBOR.
std::vector<std::byte> mutate_record(std::span<const std::byte> bytes, uint32_t seed);
// The same of one of two sections, of which the first has its length before it.
std::vector<std::byte> mutate_sections(std::span<const std::byte> bytes, uint32_t seed);

}  // namespace kiln::fuzz
