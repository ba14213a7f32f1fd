// Frame headers and the incremental decoder.
#include "kiln/wire/frame.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "bytes.h"

namespace kiln::wire {

std::string version_string(Version version) {
  return std::to_string(version >> 8) + "." + std::to_string(version & 0xff);
}

FrameHeaderBytes encode_header(const FrameHeader& header) {
  FrameHeaderBytes bytes;
  put(&bytes[0], kMagic);
  put(&bytes[4], header.version);
  put(&bytes[6], static_cast<uint16_t>(header.type));
  put(&bytes[8], header.flags);
  put(&bytes[12], header.json_size);
  put(&bytes[16], header.body_size);
  put(&bytes[24], header.request_id);
  return bytes;
}

Result<FrameHeader> decode_header(std::span<const std::byte, kFrameHeaderSize> bytes, const FrameLimits& limits) {
  if (take<uint32_t>(&bytes[0]) != kMagic) return invalid_argument("frame: bad magic number");
  FrameHeader header;
  header.version = take<uint16_t>(&bytes[4]);
  header.type = static_cast<Type>(take<uint16_t>(&bytes[6]));
  header.flags = take<uint32_t>(&bytes[8]);
  header.json_size = take<uint32_t>(&bytes[12]);
  header.body_size = take<uint64_t>(&bytes[16]);
  header.request_id = take<uint64_t>(&bytes[24]);
  if (header.flags & flag::kRequiredMask) {
    return invalid_argument("frame: required flag bits " + std::to_string(header.flags & flag::kRequiredMask) +
                            " are not known here");
  }
  if (header.json_size > limits.max_json) {
    return invalid_argument("frame: a header of " + std::to_string(header.json_size) + " bytes is over the limit of " +
                            std::to_string(limits.max_json));
  }
  const uint64_t of_type = limits.max_body_of ? limits.max_body_of(header.type) : limits.max_body;
  if (const uint64_t most = std::min(limits.max_body, of_type); header.body_size > most) {
    return invalid_argument("frame: a body of " + std::to_string(header.body_size) + " bytes is over the limit of " +
                            std::to_string(most));
  }
  return header;
}

FrameHeader OutFrame::header() const {
  FrameHeader out;
  out.type = type;
  out.flags = flags | (fd >= 0 ? flag::kHasFd : 0);
  out.json_size = static_cast<uint32_t>(json.size());
  for (const auto& piece : body) out.body_size += piece.size();
  out.request_id = request_id;
  return out;
}

Result<void> FrameDecoder::finish_header() {
  auto header = decode_header(header_bytes_, limits_);
  if (!header) {
    bad_magic_ = wire::take<uint32_t>(header_bytes_.data()) != kMagic;
    return header.error();
  }
  frame_.header = *header;
  frame_.json.reserve(header->json_size);
  frame_.body.reserve(std::min<uint64_t>(header->body_size, kReadStep));
  state_ = State::kJson;
  return {};
}

// Skips sections that are complete, empty ones among them.
void FrameDecoder::advance() {
  if (state_ == State::kJson && frame_.json.size() == frame_.header.json_size) state_ = State::kBody;
  if (state_ == State::kBody && body_seen_ == frame_.header.body_size) state_ = State::kDone;
}

Result<size_t> FrameDecoder::feed(std::span<const std::byte> bytes) {
  size_t used = 0;
  while (state_ != State::kDone && used < bytes.size()) {
    auto rest = bytes.subspan(used);
    if (state_ == State::kHeader) {
      size_t count = std::min(rest.size(), kFrameHeaderSize - header_filled_);
      std::memcpy(header_bytes_.data() + header_filled_, rest.data(), count);
      header_filled_ += count;
      used += count;
      if (header_filled_ == kFrameHeaderSize) {
        if (auto status = finish_header(); !status) return status.error();
      }
    } else if (state_ == State::kJson) {
      size_t count = std::min<size_t>(rest.size(), frame_.header.json_size - frame_.json.size());
      frame_.json.append(reinterpret_cast<const char*>(rest.data()), count);
      used += count;
    } else {
      size_t count = std::min<uint64_t>(rest.size(), frame_.header.body_size - body_seen_);
      add_to_body(rest.first(count));
      used += count;
    }
    advance();
  }
  return used;
}

void FrameDecoder::add_to_body(std::span<const std::byte> bytes) {
  body_seen_ += bytes.size();
  if (frame_.refused) return;
  try {
    if (frame_.body.size() + bytes.size() > kLargeBody) frame_.body.reserve(frame_.header.body_size);
    frame_.body.insert(frame_.body.end(), bytes.begin(), bytes.end());
  } catch (const std::bad_alloc&) {
    refuse();
  }
}

void FrameDecoder::refuse() {
  frame_.refused = true;
  frame_.body = {};
}

Frame FrameDecoder::take() {
  Frame out = std::move(frame_);
  frame_ = Frame{};
  header_filled_ = 0;
  body_seen_ = 0;
  state_ = State::kHeader;
  return out;
}

}  // namespace kiln::wire
