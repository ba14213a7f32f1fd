// Frames: a fixed 32-byte little-endian header, then UTF-8 JSON, then raw bytes. docs/reference/protocol.md is the
// manual.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kiln/dsl/result.h"
#include "kiln/wire/fd.h"

namespace kiln::wire {

inline constexpr uint32_t kMagic = 0x4e4c494b;  // "KILN"
inline constexpr size_t kFrameHeaderSize = 32;
inline constexpr uint32_t kMaxJsonSize = 64u << 10;
inline constexpr uint64_t kMaxBodySize = 64ull << 20;
inline constexpr size_t kReadStep = 64u << 10;
inline constexpr size_t kLargeBody = 1u << 20;
// Artifacts up to this size travel inline, larger ones as a descriptor.
inline constexpr size_t kMaxInlineEntry = 128u << 10;
inline constexpr size_t kMaxGetMany = 256;

// Major version in the upper byte, minor in the lower one. The socket's name carries the major version.
using Version = uint16_t;
inline constexpr Version kVersion = 0x0100;
inline constexpr Version kMinVersion = 0x0100;
std::string version_string(Version version);

enum class Type : uint16_t {
  kWelcome = 1,  // daemon → client, first frame of a connection
  kHello = 2,    // client → daemon, the answer
  kGet = 3,      // body: a 32-byte key
  kGetMany = 4,  // body: up to 256 keys; one reply a key, the last with flag::kLast
  kCompile = 5,  // body: u32 canonical length ‖ canonical ‖ debug
  kResult = 6,
  kError = 7,
  kCancel = 8,  // the request id names what to cancel; no reply of its own
  kStats = 9,
  kPing = 10,
  kShutdown = 11,
  kClearPoison = 12,  // keys that killed workers may be tried again
  kTune = 16,         // body as of COMPILE
  kTuned = 17,        // its answer
  // Up to 31: tuning. From 64 on: between daemon, zygote and workers, never on a client's connection.
  kZygoteHello = 64,
  kSpawn = 65,
  kSpawned = 66,
  kExited = 67,
  kPhase = 68,
};

// The lower half may be ignored by a peer that does not know a bit; an unknown bit of the upper half is an error.
namespace flag {
inline constexpr uint32_t kHasFd = 1u << 0;
inline constexpr uint32_t kLast = 1u << 1;
inline constexpr uint32_t kRequiredMask = 0xffff0000u;
}  // namespace flag

struct FrameHeader {
  Version version = kVersion;
  Type type = Type::kPing;
  uint32_t flags = 0;
  uint32_t json_size = 0;
  uint64_t body_size = 0;
  uint64_t request_id = 0;
};

using FrameHeaderBytes = std::array<std::byte, kFrameHeaderSize>;
FrameHeaderBytes encode_header(const FrameHeader& header);

struct FrameLimits {
  uint32_t max_json = kMaxJsonSize;
  uint64_t max_body = kMaxBodySize;
  // What a frame of a type may have, where that is less; null: all may have as much.
  uint64_t (*max_body_of)(Type) = nullptr;
};
// Checks magic, sizes and required flags; the caller checks version and type.
Result<FrameHeader> decode_header(std::span<const std::byte, kFrameHeaderSize> bytes, const FrameLimits& limits);

// A frame as received.
struct Frame {
  FrameHeader header;
  std::string json;
  std::vector<std::byte> body;
  UniqueFd fd;
  bool refused = false;  // there was no room for its body, which is not there

  Type type() const { return header.type; }
  uint64_t id() const { return header.request_id; }
  bool has(uint32_t bit) const { return (header.flags & bit) != 0; }
};

// A frame to send; borrows everything.
struct OutFrame {
  Type type = Type::kPing;
  uint64_t request_id = 0;
  std::string_view json = {};
  std::array<std::span<const std::byte>, 3> body = {};
  uint32_t flags = 0;
  int fd = -1;

  FrameHeader header() const;
};

// Turns a stream of bytes into frames, whatever pieces it arrives in. Of a body it allocates no more than twice what it
// was fed plus one step, so a hostile length costs nothing, until kLargeBody of it has come; then all of it at once, so
// that a large one is not copied as it grows. Where memory does not suffice, the frame is refused and the stream goes
// on.
class FrameDecoder {
 public:
  explicit FrameDecoder(FrameLimits limits = {}) : limits_(limits) {}
  void set_limits(FrameLimits limits) { limits_ = limits; }

  // Consumes bytes up to the end of one frame and says how many. After an error the stream is unusable.
  Result<size_t> feed(std::span<const std::byte> bytes);
  bool complete() const { return state_ == State::kDone; }
  bool mid_frame() const { return state_ != State::kHeader || header_filled_ > 0; }
  // The stream is not ours at all; nothing should be answered.
  bool bad_magic() const { return bad_magic_; }
  // The body of the frame that is coming in, as far as it is here; all of it once that is allocated.
  size_t held() const { return frame_.body.size() > kLargeBody ? frame_.header.body_size : frame_.body.size(); }
  // Drops that, and the rest as it comes.
  void refuse();
  Frame take();

 private:
  enum class State { kHeader, kJson, kBody, kDone };
  void advance();
  void add_to_body(std::span<const std::byte> bytes);
  Result<void> finish_header();

  FrameLimits limits_;
  State state_ = State::kHeader;
  FrameHeaderBytes header_bytes_{};
  size_t header_filled_ = 0;
  bool bad_magic_ = false;
  uint64_t body_seen_ = 0;
  Frame frame_;
};

}  // namespace kiln::wire
