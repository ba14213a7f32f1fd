// A cache entry: what lies on disk, in the memory tier and in a RESULT frame, so that one checksum holds from the
// daemon's disk to the client's memory. docs/reference/cache-format.md is the manual.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/dsl/artifact.h"
#include "kiln/dsl/request.h"
#include "kiln/dsl/result.h"

namespace kiln::wire {

inline constexpr size_t kMaxEntryMetadata = 64u << 10;
inline constexpr size_t kMaxEntryRecord = 16u << 10;
inline constexpr size_t kMaxEntryRequest = 1u << 20;
inline constexpr size_t kMaxEntrySize = 64u << 20;

// Sixteen bytes that stand for a builder id: XXH3-128 of its text.
using BuilderTag = std::array<uint8_t, 16>;
BuilderTag builder_tag(std::string_view builder_id);
// The directory of a builder's entries: the tag's first 8 bytes in hex.
std::string builder_directory(std::string_view builder_id);
// Between an entry's name and a random number, beside it: what `kiln import` has not written to its end.
inline constexpr std::string_view kUnfinished = ".part-";

struct EntrySource {
  RequestKey key{};
  std::string_view builder_id;
  std::string_view target_kind;  // "cpu", …: at most 15 bytes
  std::string_view metadata;     // JSON text
  std::span<const std::byte> code;
  std::string_view record = {};             // JSON text: who asked for it, and how long each phase took
  std::span<const std::byte> request = {};  // the COMPILE body that it answers, so that it can be compiled again
  uint64_t created_ms = 0;                  // Unix time; informative only
};
Result<std::vector<std::byte>> encode_entry(const EntrySource& source);

// Borrows from the bytes it was decoded from.
struct EntryView {
  RequestKey key{};
  BuilderTag builder{};
  std::string_view target_kind;
  std::string_view metadata;
  std::span<const std::byte> code;
  std::string_view record;
  std::span<const std::byte> request;  // empty: it was larger than kMaxEntryRequest
  uint64_t created_ms = 0;
};
// Checks every field, every length and the checksum.
Result<EntryView> decode_entry(std::span<const std::byte> bytes);

// decode_entry, and the entry is the one asked for.
Result<EntryView> decode_entry_for(std::span<const std::byte> bytes, const RequestKey& key, const BuilderTag& builder);

Result<Artifact> to_artifact(const EntryView& entry);

}  // namespace kiln::wire
