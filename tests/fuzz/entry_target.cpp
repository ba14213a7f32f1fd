// Any bytes as a cache entry: as they are, and with lengths and checksum made right, so that what lies behind them is
// reached. An entry that is accepted has all its bytes accounted for, is refused for any other key or builder, and with
// any bit changed.
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "check.h"
#include "kiln/wire/entry.h"
#include "kiln/wire/json.h"
#include "kiln/wire/messages.h"

namespace kiln::fuzz {
namespace {

using Bytes = std::vector<std::byte>;

// Offsets of docs/reference/cache-format.md.
constexpr size_t kMetadataSize = 12, kCodeSize = 80, kStoredSize = 88, kRecordSize = 104, kRequestSize = 108;
constexpr size_t kHeader = 112, kChecksum = 16;

template <class T>
T number_at(const Bytes& bytes, size_t offset) {
  T out;
  std::memcpy(&out, bytes.data() + offset, sizeof out);
  return out;
}

template <class T>
void set_number(Bytes& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

void repair_checksum(Bytes& bytes) {
  const size_t size = bytes.size() - kChecksum;
  XXH128_canonical_t sum;
  XXH128_canonicalFromHash(&sum, XXH3_128bits(bytes.data(), size));
  std::memcpy(bytes.data() + size, sum.digest, kChecksum);
}

// The parts' lengths as they are, as far as there is room for them; the code has the rest.
void repair_lengths(Bytes& bytes) {
  uint64_t room = bytes.size() - kHeader - kChecksum;
  for (size_t at : {kMetadataSize, kRecordSize, kRequestSize}) {
    const auto size = static_cast<uint32_t>(std::min<uint64_t>(number_at<uint32_t>(bytes, at), room));
    set_number(bytes, at, size);
    room -= size;
  }
  set_number(bytes, kCodeSize, room);
  set_number(bytes, kStoredSize, room);
}

void check_inside(const wire::EntryView& entry) {
  (void)wire::to_artifact(entry);
  if (auto record = wire::parse_object(entry.record); !record) check_refusal(record.error());
  if (auto body = wire::split_compile_body(entry.request); !body) check_refusal(body.error());
}

void check_accepted(const Bytes& bytes, const wire::EntryView& entry) {
  const size_t parts = entry.metadata.size() + entry.code.size() + entry.record.size() + entry.request.size();
  check(parts + kHeader + kChecksum == bytes.size(), "an entry's parts are the whole of it");
  expect(wire::decode_entry_for(bytes, entry.key, entry.builder), "an entry is the one it says it is");
  auto other_key = entry.key;
  other_key[0] ^= 1;
  check(!wire::decode_entry_for(bytes, other_key, entry.builder), "an entry is refused under another key");
  auto other_builder = entry.builder;
  other_builder[15] ^= 1;
  check(!wire::decode_entry_for(bytes, entry.key, other_builder), "an entry is refused for another builder");
  Bytes damaged = bytes;
  const auto sum = number_at<uint64_t>(bytes, bytes.size() - kChecksum);
  damaged[sum % bytes.size()] ^= static_cast<std::byte>(1u << (sum >> 32) % 8);
  check(!wire::decode_entry(damaged), "an entry with one bit changed is refused");
  const auto written = wire::encode_entry({.key = entry.key,
                                           .builder_id = "b",
                                           .target_kind = entry.target_kind.substr(0, 15),
                                           .metadata = entry.metadata,
                                           .code = entry.code,
                                           .record = entry.record,
                                           .request = entry.request,
                                           .created_ms = entry.created_ms});
  const auto again = wire::decode_entry(expect(written, "what was read can be written"));
  expect(again, "what was written can be read");
  check(again->metadata == entry.metadata && again->record == entry.record && again->key == entry.key &&
            again->created_ms == entry.created_ms && std::ranges::equal(again->code, entry.code) &&
            std::ranges::equal(again->request, entry.request),
        "an entry survives reading and writing");
  check_inside(entry);
}

void check_entry(const Bytes& bytes) {
  if (auto entry = wire::decode_entry(bytes)) check_accepted(bytes, *entry);
}

}  // namespace
}  // namespace kiln::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kiln::fuzz;
  const auto input = std::as_bytes(std::span(data, size));
  Bytes bytes(input.begin(), input.end());
  check_entry(bytes);
  if (bytes.size() < kHeader + kChecksum) return 0;
  repair_checksum(bytes);
  check_entry(bytes);
  repair_lengths(bytes);
  repair_checksum(bytes);
  check_entry(bytes);
  return 0;
}
