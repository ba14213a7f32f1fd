// Layout, all little-endian:
//   0 u32 magic   4 u16 version   6 u16 flags   8 u32 header length   12 u32 metadata length
//   16 key[32]   48 builder tag[16]   64 target kind[16]   80 u64 code size   88 u64 stored size
//   96 u64 created   104 u32 record length   108 u32 request length
//   112 metadata ‖ code ‖ record ‖ request ‖ XXH3-128 of everything before it
#include "kiln/wire/entry.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "bytes.h"
#include "kiln/abi/metadata_json.h"
#include "kiln/wire/json.h"

namespace kiln::wire {
namespace {

constexpr uint32_t kEntryMagic = 0x45434e4b;  // "KNCE"
constexpr uint16_t kEntryVersion = 2;
constexpr size_t kHeaderSize = 112;
constexpr size_t kKindSize = 16;
using Checksum = std::array<uint8_t, 16>;

Checksum checksum(const void* data, size_t size) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, size));
  Checksum out;
  std::memcpy(out.data(), canonical.digest, out.size());
  return out;
}

Error corrupt(const std::string& what) { return internal_error("cache entry: " + what); }

}  // namespace

BuilderTag builder_tag(std::string_view builder_id) { return checksum(builder_id.data(), builder_id.size()); }

std::string builder_directory(std::string_view builder_id) {
  static constexpr char kDigits[] = "0123456789abcdef";
  BuilderTag tag = builder_tag(builder_id);
  std::string out;
  for (size_t i = 0; i < 8; ++i) {
    out += kDigits[tag[i] >> 4];
    out += kDigits[tag[i] & 15];
  }
  return out;
}

Result<std::vector<std::byte>> encode_entry(const EntrySource& source) {
  if (source.metadata.size() > kMaxEntryMetadata) return corrupt("metadata is over 64 KiB");
  if (source.target_kind.size() >= kKindSize) return corrupt("the target kind's name is too long");
  if (source.record.size() > kMaxEntryRecord) return corrupt("the record is over 16 KiB");
  if (source.request.size() > kMaxEntryRequest) return corrupt("the request is over 1 MiB");
  size_t size = kHeaderSize + source.metadata.size() + source.code.size() + source.record.size() +
                source.request.size() + sizeof(Checksum);
  if (size > kMaxEntrySize) return corrupt("the code is over 64 MiB");
  std::vector<std::byte> bytes(size);
  std::byte* at = bytes.data();
  put(at, kEntryMagic);
  put(at + 4, kEntryVersion);
  put(at + 8, static_cast<uint32_t>(kHeaderSize));
  put(at + 12, static_cast<uint32_t>(source.metadata.size()));
  std::memcpy(at + 16, source.key.data(), source.key.size());
  BuilderTag tag = builder_tag(source.builder_id);
  std::memcpy(at + 48, tag.data(), tag.size());
  std::memcpy(at + 64, source.target_kind.data(), source.target_kind.size());
  put<uint64_t>(at + 80, source.code.size());
  put<uint64_t>(at + 88, source.code.size());
  put(at + 96, source.created_ms);
  put(at + 104, static_cast<uint32_t>(source.record.size()));
  put(at + 108, static_cast<uint32_t>(source.request.size()));
  auto to = bytes.begin() + ptrdiff_t(kHeaderSize);
  for (std::span<const std::byte> part : {std::as_bytes(std::span(source.metadata)), source.code,
                                          std::as_bytes(std::span(source.record)), source.request}) {
    to = std::copy(part.begin(), part.end(), to);
  }
  Checksum sum = checksum(at, size - sizeof sum);
  std::memcpy(at + size - sizeof sum, sum.data(), sum.size());
  return bytes;
}

Result<EntryView> decode_entry(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderSize + sizeof(Checksum)) return corrupt("too short");
  if (bytes.size() > kMaxEntrySize) return corrupt("too long");
  const std::byte* at = bytes.data();
  if (take<uint32_t>(at) != kEntryMagic) return corrupt("bad magic number");
  if (take<uint16_t>(at + 4) != kEntryVersion) return corrupt("format version differs");
  if (take<uint16_t>(at + 6) != 0) return corrupt("unknown flags");
  if (take<uint32_t>(at + 8) != kHeaderSize) return corrupt("header length differs");
  uint64_t metadata = take<uint32_t>(at + 12), stored = take<uint64_t>(at + 88);
  uint64_t record = take<uint32_t>(at + 104), request = take<uint32_t>(at + 108);
  uint64_t room = bytes.size() - kHeaderSize - sizeof(Checksum);
  if (metadata > kMaxEntryMetadata || record > kMaxEntryRecord || request > kMaxEntryRequest || stored > room ||
      metadata + stored + record + request != room || take<uint64_t>(at + 80) != stored) {
    return corrupt("lengths disagree");
  }
  Checksum sum = checksum(at, bytes.size() - sizeof sum);
  if (std::memcmp(at + bytes.size() - sizeof sum, sum.data(), sum.size()) != 0) return corrupt("checksum differs");

  EntryView view;
  std::memcpy(view.key.data(), at + 16, view.key.size());
  std::memcpy(view.builder.data(), at + 48, view.builder.size());
  const char* kind = reinterpret_cast<const char*>(at + 64);
  view.target_kind = {kind, strnlen(kind, kKindSize)};
  view.created_ms = take<uint64_t>(at + 96);
  view.metadata = {reinterpret_cast<const char*>(at + kHeaderSize), metadata};
  view.code = bytes.subspan(kHeaderSize + metadata, stored);
  view.record = {reinterpret_cast<const char*>(view.code.data() + stored), record};
  view.request = bytes.subspan(kHeaderSize + metadata + stored + record, request);
  return view;
}

Result<EntryView> decode_entry_for(std::span<const std::byte> bytes, const RequestKey& key, const BuilderTag& builder) {
  auto view = decode_entry(bytes);
  if (!view) return view;
  if (view->key != key) return corrupt("it belongs to another key");
  if (view->builder != builder) return corrupt("it was made by another builder");
  return view;
}

Result<Artifact> to_artifact(const EntryView& entry) {
  const auto object = parse_object(entry.metadata);
  if (!object) return corrupt("metadata: " + object.error().message);
  auto metadata = abi::metadata_of(*object);
  if (!metadata) return corrupt("its metadata has " + metadata.error().message);
  return Artifact{std::move(*metadata), {entry.code.begin(), entry.code.end()}};
}

}  // namespace kiln::wire
